// SwiGLU (Shazeer 2020): y = silu(gate) * up, silu(z) = z / (1 + exp(-z)). gate_up: [R,2F], gate first; y:
// [R,F].
#pragma once

#include "core/op_context.h"
#include "core/tensor_view.h"

namespace escalier::kernels {

using SwigluForward = void(const OpContext&, TensorView y, TensorView gate_up);
using SwigluBackward = void(const OpContext&, TensorView dgate_up, TensorView dy, TensorView gate_up);

}  // namespace escalier::kernels
