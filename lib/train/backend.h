// Where a run computes: device, op table, and how tensors travel. The only module that knows which backends
// there are.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "comm/mpi_env.h"
#include "comm/transport.h"
#include "config/job_spec.h"
#include "device/device.h"
#include "kernels/ops.h"

namespace escalier::train {

struct Backend {
    std::unique_ptr<device::Device> device;
    const kernels::Ops& ops;
    // Bytes of op scratch on this rank (kernels/ops.h).
    std::size_t (*scratch_bytes)(const kernels::WorkExtent& extent, int threads);
    std::unique_ptr<comm::Transport> transport;
    int devices = 1;        // that the whole job computes on: one a rank, fewer where ranks share GPUs
    std::string note = {};  // why the CPU was taken where run.device is auto

    std::string gpu() const { return device->is_host() ? "" : device->description(); }
    const char* device_name() const { return device->is_host() ? "cpu" : "cuda"; }  // as run.device names it
    // Waits until the device has done all that was queued; what failed in the background is thrown here. The
    // watchdog names the wait `label`, and its time runs from the last mark that the device has passed: a
    // long step is no silence.
    void wait(comm::MpiEnv& env, const char* label);
};

// Backend::scratch_bytes of the CPU.
std::size_t cpu_scratch_bytes(const kernels::WorkExtent& extent, int threads);

// Collective over the world. run.device: auto takes the GPUs if every rank finds one, else the CPU. All ranks
// throw alike: DeviceError (69) where cuda is asked for and cannot be had, or ranks and GPUs do not fit.
Backend make_backend(const config::RunConfig& run, comm::MpiEnv& env);

// The spec with what follows from the backend filled in (config/device_rules.h). Collective over `job`.
config::JobSpec settled(const config::JobSpec& spec, const Backend& backend, comm::Communicator& job);

}  // namespace escalier::train
