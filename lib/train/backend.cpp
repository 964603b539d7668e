#include "train/backend.h"

#include <functional>
#include <utility>

#include "config/device_rules.h"
#include "train/cuda_plugin.h"

namespace escalier::train {

namespace {

Backend cpu_backend(comm::MpiEnv& env, std::string note) {
    return {device::make_cpu_device(),     kernels::cpu_ops(), cpu_scratch_bytes,
            comm::make_mpi_transport(env), env.world().size(), std::move(note)};
}

// Agrees on whether every rank can use a GPU; throws what the lowest rank that cannot has to say.
CudaPlugin open_cuda(const config::RunConfig& run, comm::MpiEnv& env) {
    CudaPlugin plugin;
    env.agree([&] {
        if (run.device == "auto" && !worth_looking_for_cuda()) throw DeviceError("no NVIDIA driver here");
        plugin = open_cuda_plugin();
        std::string problem;
        plugin.problem(problem, env.world().size() > 1);
        if (!problem.empty())
            throw DeviceError("run.device: cuda needs a GPU for every rank, but on rank " +
                              std::to_string(env.world().rank()) + " (" + env.place().host + ") " + problem +
                              ". Start it where there are GPUs, or set run.device: cpu.");
    });
    return plugin;
}

}  // namespace

std::size_t cpu_scratch_bytes(const kernels::WorkExtent& extent, int threads) {
    return kernels::cpu_scratch_bytes_per_thread(extent) * static_cast<std::size_t>(threads);
}

void Backend::wait(comm::MpiEnv& env, const char* label) {
    if (device->is_host()) return;
    bool idle = false;
    const auto moved = [&] {
        transport->check();
        idle = device->idle();
        return idle || device->progressed();
    };
    while (!idle) env.wait_until(label, std::ref(moved));
}

Backend make_backend(const config::RunConfig& run, comm::MpiEnv& env) {
    if (run.device == "cpu") return cpu_backend(env, "");
    CudaPlugin plugin;
    try {
        plugin = open_cuda(run, env);
    } catch (const comm::AgreedError& error) {
        if (run.device == "cuda") throw;
        return cpu_backend(env, error.what());
    }
    std::unique_ptr<Backend> backend;
    plugin.make_backend(backend, run, env);
    return std::move(*backend);
}

config::JobSpec settled(const config::JobSpec& spec, const Backend& backend, comm::Communicator& job) {
    config::JobSpec out;
    comm::agree(job,
                [&] { out = config::on_device(spec, backend.device_name(), backend.transport->name()); });
    return out;
}

}  // namespace escalier::train
