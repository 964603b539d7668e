#include "kernels/common/tiles.h"

namespace escalier::kernels {

TileGrid::TileGrid(std::int64_t rows, std::int64_t columns) : rows_(rows), columns_(columns) {
    constexpr std::int64_t wanted_tiles = 16, least_extent = 192;
    constexpr std::int64_t kernel_extent = 48;  // both register blocks of the library's kernels divide it
    const std::int64_t longer = std::max(rows, columns);
    const std::int64_t cut = round_up(std::max(least_extent, ceil_div(longer, wanted_tiles)), kernel_extent);
    tile_rows_ = std::max<std::int64_t>(1, rows > columns ? cut : rows);
    tile_columns_ = std::max<std::int64_t>(1, rows > columns ? columns : cut);
}

}  // namespace escalier::kernels
