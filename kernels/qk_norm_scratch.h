// The cut of the rows of qk_norm's backward pass on CUDA, by shape alone, and the scratch that its partial
// sums take.
#pragma once

#include "kernels/common/blocks.h"

namespace escalier::kernels::cuda {

// Blocks of rows: two passes (queries, keys) over 264 fill an H200 four times.
constexpr std::int64_t qk_norm_blocks(std::int64_t rows) {
    constexpr std::int64_t most = 264, least_rows = 8;
    return std::clamp<std::int64_t>(rows / least_rows, 1, most);
}
constexpr std::size_t qk_norm_scratch_bytes(std::int64_t rows, std::int64_t head_size) {
    return static_cast<std::size_t>(2 * qk_norm_blocks(rows) * head_size) * sizeof(float);
}

}  // namespace escalier::kernels::cuda
