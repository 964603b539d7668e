// The cut of attention into blocks of query rows, and the scratch it needs.
#pragma once

#include <cstdint>

#include "kernels/common/blocks.h"
#include "kernels/common/simd.h"

namespace escalier::kernels {

inline constexpr std::int64_t attention_block = 64;  // query rows

// Leading dimension of a block of scores.
constexpr std::int64_t attention_score_stride(std::int64_t sequence) {
    return round_up(sequence, lane_count);
}
// Floats per thread: the backward pass holds the scores and their gradients of one block.
constexpr std::int64_t attention_scratch_elements(std::int64_t sequence) {
    return 2 * attention_block * attention_score_stride(sequence);
}

}  // namespace escalier::kernels
