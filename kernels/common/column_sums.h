// Sums over rows (gradients of gains and biases): one partial sum per fixed block of rows, combined in order.
#pragma once

#include "kernels/accumulate.h"
#include "kernels/common/blocks.h"
#include "kernels/common/simd.h"

namespace escalier::kernels {

// The partial sums of `sets` column sums, `columns` wide, in the shared scratch of an op.
class ColumnSums {
 public:
    static constexpr std::int64_t max_blocks = 16;
    static constexpr std::int64_t max_sets = 2;
    static constexpr std::int64_t scratch_elements(std::int64_t columns) {
        return max_blocks * max_sets * round_up(columns, lane_count);
    }

    ColumnSums(const OpContext& context, std::int64_t rows, std::int64_t columns, std::int64_t sets);

    // body(begin, end, partials) for each block of rows; partials[set] starts at zero.
    template <class Body>
    void for_row_blocks(Body body) {
        context_.pool().parallel_for(blocks_, [&](std::int64_t block, int) {
            float* sums[max_sets];
            for (std::int64_t set = 0; set < sets_; ++set) {
                sums[set] = partial(block, set);
                std::fill_n(sums[set], columns_, 0.0f);
            }
            body(block * rows_per_block_, std::min(rows_, (block + 1) * rows_per_block_), sums);
        });
    }
    // out[columns] (+)= the sum of the partial sums of `set`.
    void finish(float* out, std::int64_t set, Accumulate accumulate) const;

 private:
    float* partial(std::int64_t block, std::int64_t set) const {
        return scratch_ + (block * sets_ + set) * stride_;
    }

    const OpContext& context_;
    std::int64_t rows_, columns_, sets_, stride_;
    std::int64_t rows_per_block_, blocks_;
    float* scratch_;
};

}  // namespace escalier::kernels
