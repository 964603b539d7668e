// Launching a kernel on a stream, every launch checked.
#pragma once

#include <concepts>
#include <cstddef>
#include <source_location>
#include <tuple>

#include "kernels/common/cuda_check.h"
#include "kernels/common/cuda_platform.h"

namespace escalier::kernels::cuda {

// The blocks of a launch and where in the source it stands, for messages.
struct Grid {
    Grid(dim3 blocks, std::source_location place = std::source_location::current())
        : extent(blocks), where(place) {}
    template <std::integral Count>
    Grid(Count blocks, std::source_location place = std::source_location::current())
        : extent(static_cast<unsigned>(blocks)), where(place) {}

    dim3 extent;
    std::source_location where;
};

// Runs kernel(args...) on `stream`; more than 48 KiB of dynamic shared memory is asked for as CUDA wants it.
// Throws DeviceError if the launch is refused. Faults inside the kernel come out at a later call.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), Grid grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, Arguments&&... arguments) {
    constexpr std::size_t always_allowed = 48 * 1024;
    if (shared_bytes > always_allowed)
        check_cuda(
            cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)),
            "kernel launch (dynamic shared memory)", grid.where);
#ifdef __CUDACC__
    // Not <<<>>> and cudaGetLastError: that would report what an earlier call has left behind.
    std::tuple<Parameters...> values(static_cast<Parameters>(arguments)...);
    const cudaError_t code = std::apply(
        [&](auto&... value) {
            void* pointers[sizeof...(value) + 1] = {static_cast<void*>(&value)...};
            return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid.extent, block, pointers,
                                    shared_bytes, stream);
        },
        values);
#else
    const cudaError_t code = cuda_emulation::launch(kernel, grid.extent, block, shared_bytes, stream,
                                                    grid.where, static_cast<Parameters>(arguments)...);
#endif
    check_cuda(code, "kernel launch", grid.where);
}

}  // namespace escalier::kernels::cuda
