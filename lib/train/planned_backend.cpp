#include "train/planned_backend.h"

#include "comm/planned_communicator.h"
#include "core/error.h"
#include "device/planned_device.h"
#include "kernels/cuda_sizes.h"

namespace escalier::train {

namespace {

// Becomes any op, which throws when it is called.
struct NoOp {
    template <class Result, class... Arguments>
    static Result call(Arguments...) {
        throw InternalError("a planned job was asked to compute");
    }
    template <class Result, class... Arguments>
    using Function = Result(Arguments...);
    template <class Result, class... Arguments>
    operator Function<Result, Arguments...>&() const {
        return call<Result, Arguments...>;
    }
};

// Sizes are all that a plan asks of ops.
const kernels::Ops& cuda_sizes() {
    constexpr NoOp no;
    static const kernels::Ops table = {no,
                                       no,
                                       no,
                                       no,
                                       no,
                                       no,
                                       no,
                                       no,
                                       no,
                                       no,
                                       no,
                                       no,
                                       no,  // up to linear_backward_weight
                                       kernels::cuda::prepared_weight_elements,
                                       no,
                                       no,
                                       no,
                                       no,
                                       no,
                                       no,
                                       no,
                                       no,
                                       no,
                                       no,
                                       no,
                                       no,
                                       no,
                                       no,
                                       no,
                                       no,
                                       no,
                                       no,
                                       no,
                                       no,
                                       no,
                                       no,
                                       no};
    return table;
}

}  // namespace

Backend planned_backend(const std::string& device, const std::string& comm, bool deterministic) {
    std::unique_ptr<comm::Transport> transport = comm::planned_transport(comm, deterministic);
    if (device == "cpu")
        return {device::make_cpu_device(), kernels::cpu_ops(), cpu_scratch_bytes, std::move(transport)};
    return {device::make_planned_device("a planned GPU"), cuda_sizes(),
            [](const kernels::WorkExtent& extent, int) { return kernels::cuda_scratch_bytes(extent); },
            std::move(transport)};
}

}  // namespace escalier::train
