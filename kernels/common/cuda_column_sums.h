// Sums over rows without atomics: one partial sum per fixed block of rows, into scratch, added up in order.
// Blocks are cut by shape alone, so the bits depend on neither the device nor the run.
#pragma once

#include "core/op_context.h"
#include "core/tensor_view.h"
#include "kernels/accumulate.h"
#include "kernels/common/blocks.h"

namespace escalier::kernels::cuda {

struct RowCut {
    std::int64_t blocks, rows_per_block;
};

// Floats of one set of partial sums, whatever the shape; norms have two sets.
inline constexpr std::int64_t column_sum_elements = std::int64_t{1} << 20;

// 528 blocks are four to each multiprocessor of an H200; fewer where rows are so wide that the parts would
// weigh, or so few that a block would have less than 16.
constexpr RowCut norm_row_cut(std::int64_t rows, std::int64_t columns) {
    constexpr std::int64_t most_blocks = 528, least_rows = 16;
    const std::int64_t blocks = std::clamp<std::int64_t>(column_sum_elements / columns, 1, most_blocks);
    const std::int64_t per_block = std::max(least_rows, ceil_div(rows, blocks));
    return {ceil_div(rows, per_block), per_block};
}

// out[columns] (+)= parts[0] + parts[1] + …, parts: [count, columns].
void add_parts(const OpContext& context, float* out, const float* parts, std::int64_t count,
               std::int64_t columns, Accumulate accumulate);

// out[C] (+)= the column sums of x[R,C], in fp32; uses column_sum_elements floats of scratch at most.
// Moves R * C elements; floor: those bytes at the speed of memory, of which 85 % is expected.
void add_column_sums(const OpContext& context, TensorView out, TensorView x, Accumulate accumulate);

}  // namespace escalier::kernels::cuda
