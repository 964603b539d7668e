// The op table of the CUDA backend. No device code here: host code of any kind may include it.
#pragma once

#include "kernels/cuda_sizes.h"

namespace escalier::kernels {

// The CUDA twins: activations in f32 or bf16, parameters and their gradients in f32. They queue work on the
// stream of their context and return; memory is the device's.
const Ops& cuda_ops();

}  // namespace escalier::kernels
