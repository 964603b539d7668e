// The scratch of CUDA attention's backward pass: two floats for each query of each head.
#pragma once

#include "kernels/common/blocks.h"

namespace escalier::kernels::cuda {

inline constexpr std::int64_t attention_statistics_bytes = 8;

// Queries of a head in scratch: whole blocks of any kernel.
constexpr std::int64_t attention_statistics_rows(std::int64_t sequence) {
    return round_up(sequence, 128);
}
constexpr std::size_t attention_scratch_bytes(std::int64_t batch, std::int64_t sequence, std::int64_t heads) {
    return static_cast<std::size_t>(batch * heads * attention_statistics_rows(sequence) *
                                    attention_statistics_bytes);
}

}  // namespace escalier::kernels::cuda
