#include "checkpoint/stored_block.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

namespace escalier::checkpoint {

namespace {

float from_bf16(std::uint16_t bits) {
    return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

// IEEE 754 binary16.
float from_f16(std::uint16_t bits) {
    const int exponent = bits >> 10 & 31;
    const int fraction = bits & 1023;
    const float sign = bits & 0x8000 ? -1.0f : 1.0f;
    if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
    if (exponent == 31) return fraction ? std::nanf("") : sign * INFINITY;
    return sign * std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
}

void convert(const char* data, const std::string& dtype, std::int64_t begin, std::int64_t count, float* out) {
    if (dtype == "F32") {
        std::memcpy(out, data + begin * 4, static_cast<std::size_t>(count) * 4);
        return;
    }
    const bool is_bf16 = dtype == "BF16";
    for (std::int64_t i = 0; i < count; ++i) {
        std::uint16_t bits;
        std::memcpy(&bits, data + (begin + i) * 2, 2);
        out[i] = is_bf16 ? from_bf16(bits) : from_f16(bits);
    }
}

}  // namespace

Block stored_block(const model::Box& box, bool transposed) {
    if (box.extent.rank() == 1) return {0, box.offset[0], 1, box.extent[0]};
    if (transposed) return {box.offset[1], box.offset[0], box.extent[1], box.extent[0]};
    return {box.offset[0], box.offset[1], box.extent[0], box.extent[1]};
}

Block whole_block(const std::vector<std::int64_t>& shape) {
    ESCALIER_CHECK(shape.size() == 1 || shape.size() == 2, "blocks are of vectors or matrices");
    return shape.size() == 1 ? Block{0, 0, 1, shape[0]} : Block{0, 0, shape[0], shape[1]};
}

std::optional<Block> intersection(const Block& a, const Block& b) {
    Block out{std::max(a.row, b.row), std::max(a.column, b.column), 0, 0};
    out.rows = std::min(a.row + a.rows, b.row + b.rows) - out.row;
    out.columns = std::min(a.column + a.columns, b.column + b.columns) - out.column;
    if (out.rows <= 0 || out.columns <= 0) return std::nullopt;
    return out;
}

void read_block(const char* data, const std::string& dtype, std::int64_t columns, const Block& block,
                float* out, std::int64_t row_step, std::int64_t column_step) {
    if (column_step == 1) {
        for (std::int64_t row = 0; row < block.rows; ++row)
            convert(data, dtype, (block.row + row) * columns + block.column, block.columns,
                    out + row * row_step);
        return;
    }
    // A transposition touches a cache line per element on one side: tile by tile, so that a line is used
    // whole while it is there.
    constexpr std::int64_t tile = 16;
    std::array<float, tile> row_part;
    for (std::int64_t row = 0; row < block.rows; row += tile)
        for (std::int64_t column = 0; column < block.columns; column += tile) {
            const std::int64_t row_end = std::min(row + tile, block.rows);
            const std::int64_t width = std::min(tile, block.columns - column);
            for (std::int64_t i = row; i < row_end; ++i) {
                convert(data, dtype, (block.row + i) * columns + block.column + column, width,
                        row_part.data());
                for (std::int64_t j = 0; j < width; ++j)
                    out[i * row_step + (column + j) * column_step] = row_part[static_cast<std::size_t>(j)];
            }
        }
}

}  // namespace escalier::checkpoint
