#include "kernels/common/column_sums.h"

namespace escalier::kernels {

ColumnSums::ColumnSums(const OpContext& context, std::int64_t rows, std::int64_t columns, std::int64_t sets)
    : context_(context), rows_(rows), columns_(columns), sets_(sets), stride_(round_up(columns, lane_count)) {
    constexpr std::int64_t least_rows = 8;
    rows_per_block_ = std::max(least_rows, ceil_div(rows, max_blocks));
    blocks_ = ceil_div(rows, rows_per_block_);
    scratch_ = context.shared_scratch<float>(static_cast<std::size_t>(blocks_ * sets_ * stride_));
}

void ColumnSums::finish(float* out, std::int64_t set, Accumulate accumulate) const {
    for_blocks(context_, columns_, elements_per_task / max_blocks,
               [&](std::int64_t begin, std::int64_t end, int) {
                   for (std::int64_t column = begin; column < end; ++column) {
                       float sum = 0.0f;
                       for (std::int64_t block = 0; block < blocks_; ++block)
                           sum += partial(block, set)[column];
                       out[column] = accumulate == Accumulate::add ? out[column] + sum : sum;
                   }
               });
}

}  // namespace escalier::kernels
