// Causality on a fragment of scores, whichever side its rows are.
#pragma once

#include "kernels/common/mma_tiles.h"

namespace escalier::kernels::cuda {

enum class Rows { queries, keys };

// Whether `rows` rows from `row` and `columns` columns from `column` hold no pair, or not only pairs, of a
// query and a key at or before it.
template <Rows side>
__device__ __forceinline__ bool all_masked(int row, int rows, int column, int columns) {
    return side == Rows::queries ? column >= row + rows : column + columns <= row;
}
template <Rows side>
__device__ __forceinline__ bool some_masked(int row, int rows, int column, int columns) {
    return side == Rows::queries ? column + columns - 1 > row : column < row + rows - 1;
}

// Scores of keys after their query become -infinity; the fragment begins at `row` and `column` of the
// sequence.
template <Rows side, int m_tiles, int n_tiles>
__device__ __forceinline__ void mask_later_keys(Accumulator<m_tiles, n_tiles>& scores, int row, int column) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < m_tiles; ++m)
#pragma unroll
        for (int n = 0; n < n_tiles; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int r = row + 16 * m + i / 2 * 8 + lane / 4, c = column + 8 * n + lane % 4 * 2 + i % 2;
                if (side == Rows::queries ? c > r : c < r) scores.at[m][n][i] = -INFINITY;
            }
}

}  // namespace escalier::kernels::cuda
