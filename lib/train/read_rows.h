// Rows of a tensor as numbers of the host.
#pragma once

#include "core/tensor_view.h"
#include "device/device.h"

namespace escalier::train {

// Rows [first, first + count) of a view, f32 or bf16, after all queued work. device: where it lies; null: in
// host memory.
void read_rows(device::Device* device, TensorView view, std::int64_t first, std::int64_t count, float* out);

}  // namespace escalier::train
