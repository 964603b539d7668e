// Where a run computes: device and op table. The only module that knows which backends were built.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "config/job_spec.h"
#include "device/device.h"
#include "kernels/ops.h"

namespace escalier::train {

struct Backend {
    std::unique_ptr<device::Device> device;
    const kernels::Ops& ops;
    // Bytes of op scratch per compute thread (kernels/ops.h).
    std::size_t (*scratch_bytes_per_thread)(std::int64_t max_columns, std::int64_t max_sequence,
                                            std::int64_t max_head_size);
};

Backend make_backend(const config::RunConfig& run);

}  // namespace escalier::train
