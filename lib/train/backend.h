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

    // Waits until the device has done all that was queued; what failed in the background is thrown here. The
    // watchdog names the wait `label`.
    void wait(comm::MpiEnv& env, const char* label);
};

Backend make_backend(const config::RunConfig& run, comm::MpiEnv& env);

}  // namespace escalier::train
