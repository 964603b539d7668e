// The tile grid of a matrix product: fixed by the shape of the result, so that bits do not depend on threads.
#pragma once

#include "kernels/common/blocks.h"

namespace escalier::kernels {

struct Tile {
    std::int64_t row, rows, column, columns;
};

class TileGrid {
 public:
    // For a result [rows, columns]. The longer side is cut, into enough tiles for many threads and wide
    // enough ones for the library to reach its speed.
    TileGrid(std::int64_t rows, std::int64_t columns);

    std::int64_t count() const { return ceil_div(rows_, tile_rows_) * ceil_div(columns_, tile_columns_); }
    Tile operator[](std::int64_t index) const {
        const std::int64_t across = ceil_div(columns_, tile_columns_);
        const std::int64_t row = index / across * tile_rows_, column = index % across * tile_columns_;
        return {row, std::min(tile_rows_, rows_ - row), column, std::min(tile_columns_, columns_ - column)};
    }

 private:
    std::int64_t rows_, columns_, tile_rows_, tile_columns_;
};

}  // namespace escalier::kernels
