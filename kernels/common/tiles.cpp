#include "kernels/common/tiles.h"

namespace escalier::kernels {
namespace {

// Tiles for an extent: each about 384 long, where the library is within 3 % of its speed on the whole
// product, in multiples of four so that 2 and 4 threads get equal shares. Short extents get shorter tiles,
// down to 192, below which packing the other operand for every tile costs more than a thread brings.
std::int64_t tiles_along(std::int64_t extent) {
    constexpr std::int64_t good = 384, least = 192;
    if (extent < 2 * least) return 1;
    if (extent < 4 * least) return 2;
    return std::max<std::int64_t>(4, (extent / good + 2) / 4 * 4);
}

}  // namespace

TileGrid::TileGrid(std::int64_t rows, std::int64_t columns)
    : rows_(rows), columns_(columns), tile_rows_(std::max<std::int64_t>(1, rows)), tile_columns_(columns) {
    constexpr std::int64_t alignment = 16;  // one vector of the library's kernels
    std::int64_t& cut = rows > columns ? tile_rows_ : tile_columns_;
    cut = round_up(ceil_div(cut, tiles_along(cut)), alignment);
    tile_columns_ = std::max<std::int64_t>(1, tile_columns_);
}

}  // namespace escalier::kernels
