#include "train/backend.h"

namespace escalier::train {

namespace {

std::size_t cpu_scratch_bytes(const kernels::WorkExtent& extent, int threads) {
    return kernels::cpu_scratch_bytes_per_thread(extent) * static_cast<std::size_t>(threads);
}

}  // namespace

void Backend::wait(comm::MpiEnv& env, const char* label) {
    if (device->is_host()) return;
    env.wait_until(label, [this] {
        transport->check();
        return device->idle();
    });
}

Backend make_backend(const config::RunConfig& run, comm::MpiEnv& env) {
    ESCALIER_CHECK(run.device == "cpu", "an unresolved device: " + run.device);
    return {device::make_cpu_device(), kernels::cpu_ops(), cpu_scratch_bytes, comm::make_mpi_transport(env)};
}

}  // namespace escalier::train
