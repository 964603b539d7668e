// The entries of libescalier_cuda.so (train/cuda_plugin.h).
#include <algorithm>
#include <cstring>
#include <vector>

#include "comm/nccl_transport.h"
#include "comm/staged_transport.h"
#include "device/cuda_device.h"
#include "device/cuda_devices.h"
#include "kernels/cuda_ops.h"
#include "train/cuda_plugin.h"

namespace escalier::train {

namespace {

struct WireChoice {
    char host[64] = "";
    char device[64] = "";
    int index = 0;
    int visible = 1;
};

std::size_t cuda_scratch_bytes(const kernels::WorkExtent& extent, int) {
    return kernels::cuda_scratch_bytes(extent);
}

std::vector<device::DeviceChoice> gather_choices(comm::MpiEnv& env, int index, int visible) {
    WireChoice own;
    std::strncpy(own.host, env.place().host.c_str(), sizeof own.host - 1);
    std::strncpy(own.device, device::device_uuid(index).c_str(), sizeof own.device - 1);
    own.index = index;
    own.visible = visible;
    std::vector<WireChoice> all(static_cast<std::size_t>(env.world().size()));
    const auto bytes = static_cast<std::int64_t>(sizeof own);
    env.world().all_gather(TensorView(all.data(), DType::u8, {bytes * env.world().size()}),
                           TensorView(&own, DType::u8, {bytes}), "the GPUs of all ranks");
    std::vector<device::DeviceChoice> choices;
    for (const WireChoice& wire : all) choices.push_back({wire.host, wire.device, wire.index, wire.visible});
    return choices;
}

// "nccl" or "staged". Throws DeviceError where ranks share a GPU and must not.
std::string choose_transport(const config::RunConfig& run, const std::vector<device::DeviceChoice>& choices) {
    const bool shared = device::most_sharers(choices) > 1;
    if (shared && !run.share_gpu) throw DeviceError(device::sharing_problem(choices));
    if (shared && run.comm == "nccl")
        throw DeviceError(
            "run.comm is nccl, but ranks share a GPU (run.share_gpu: true), and NCCL refuses two ranks on "
            "one. Set run.comm: staged, or auto.");
    if (run.comm != "auto") return run.comm;
    return shared ? "staged" : "nccl";
}

}  // namespace

extern "C" {

const char* escalier_cuda_interface() {
    return ESCALIER_CUDA_INTERFACE;
}

void escalier_cuda_problem(std::string& problem, bool several_ranks) {
    device::set_cuda_defaults(several_ranks);
    problem = device::cuda_problem();
}

void escalier_make_cuda_backend(std::unique_ptr<Backend>& backend, const config::RunConfig& run,
                                comm::MpiEnv& env) {
    int index = 0, visible = 0;
    env.agree([&] {
        if (const std::string problem = device::cuda_problem(); !problem.empty()) throw DeviceError(problem);
        visible = device::visible_devices();
        index = device::device_of_rank(env.place().local_rank, visible);
    });
    const std::vector<device::DeviceChoice> choices = gather_choices(env, index, visible);
    std::string transport;
    std::unique_ptr<device::CudaDevice> device;
    env.agree([&] {
        transport = choose_transport(run, choices);
        device = std::make_unique<device::CudaDevice>(index, run.deterministic);
    });
    device::CudaDevice& gpu = *device;
    const kernels::Ops& ops = kernels::cuda_ops();
    backend.reset(new Backend{std::move(device), ops, cuda_scratch_bytes,
                              transport == "nccl"
                                  ? comm::make_nccl_transport(env, gpu, ops.sum_parts, run.deterministic)
                                  : comm::make_staged_transport(env, gpu),
                              device::distinct_devices(choices)});
}

}  // extern "C"

}  // namespace escalier::train
