#include "train/backend.h"

namespace escalier::train {

Backend make_backend(const config::RunConfig& run) {
    ESCALIER_CHECK(run.device == "cpu", "an unresolved device: " + run.device);
    return {device::make_cpu_device(), kernels::cpu_ops(), kernels::cpu_scratch_bytes_per_thread};
}

}  // namespace escalier::train
