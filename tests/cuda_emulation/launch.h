// A launch, queued on its stream like any other work (shims/queue.h).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <source_location>
#include <tuple>

namespace escalier::cuda_emulation {

// Refused as CUDA refuses it: sizes of grid and block, dynamic shared memory that was not asked for, a stream
// of another device than the current one.
cudaError_t queue_kernel(const void* kernel, dim3 grid, dim3 block, std::size_t shared_bytes,
                         cudaStream_t stream, std::function<void()> body, std::source_location where);

template <class... Parameters>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
                   cudaStream_t stream, std::source_location where, Parameters... arguments) {
    return queue_kernel(
        reinterpret_cast<const void*>(kernel), grid, block, shared_bytes, stream,
        [kernel, held = std::make_tuple(arguments...)] { std::apply(kernel, held); }, where);
}

}  // namespace escalier::cuda_emulation
