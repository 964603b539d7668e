// How much scratch CUDA ops take, for any shape within bounds. Host code.
#pragma once

#include "kernels/common/cuda_column_sums.h"

namespace escalier::kernels::cuda {

inline constexpr int tensors_per_launch = 56;    // a list of them stays below 4 KB of kernel parameters
inline constexpr std::int64_t sum_blocks = 256;  // at most, of a tensor in sum_of_squares and count_nonfinite
inline constexpr std::size_t sums_scratch_bytes = tensors_per_launch * sum_blocks * sizeof(double);

// Two sets of partial sums: gradients of gain and bias of a norm; one set of a linear's bias.
constexpr std::size_t column_sums_scratch_bytes(std::int64_t rows, std::int64_t max_columns) {
    constexpr std::int64_t most_blocks = 1056, least_rows = 16;
    const std::int64_t elements =
        std::min(column_sum_elements, std::min(most_blocks, ceil_div(rows, least_rows)) * max_columns);
    return static_cast<std::size_t>(2 * elements) * sizeof(float);
}

// The rows in order of their tokens, and these tokens.
constexpr std::size_t embedding_scratch_bytes(std::int64_t rows) {
    return static_cast<std::size_t>(2 * rows) * sizeof(std::int32_t);
}

}  // namespace escalier::kernels::cuda
