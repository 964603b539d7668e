// Element-wise reduction of several sources into one destination, in the order of the sources.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace escalier::comm {

enum class Combine { sum, max };

// destination[i] = ((sources[0][i] o sources[1][i]) o sources[2][i]) o … for i in [0, elements); destination
// may be one of the sources. sum: f32, f64, and bf16 in float and rounded once; max: f64, i32, and a NaN
// anywhere makes the result NaN.
void combine_in_order(Combine combine, DType dtype, void* destination, const void* const* sources, int count,
                      std::int64_t elements);

bool can_combine(Combine combine, DType dtype);

}  // namespace escalier::comm
