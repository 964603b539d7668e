// Dropout with masks that are a pure function of (seed, site, global sample, position, channel).
#pragma once

#include "core/op_context.h"
#include "core/tensor_view.h"

namespace escalier::kernels {

struct DropoutKey {
    std::uint64_t seed;
    std::uint64_t site;  // stream_of(name of the place in the model)
    // In memory of the backend: the global sample ordinal of row 0; the samples of a micro-batch are
    // consecutive.
    const std::uint64_t* first_sample;
};

// x[R,C] in place: (x + bias) * mask / (1 - probability); bias[C] may be without data. The same call without
// bias is its own backward pass.
using Dropout = void(const OpContext&, TensorView x, TensorView bias, const DropoutKey& key,
                     float probability, std::int64_t sequence);

}  // namespace escalier::kernels
