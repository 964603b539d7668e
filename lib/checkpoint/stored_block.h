// Rectangles of dense row-major tensors as files hold them. A vector is one row.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/parameter.h"

namespace escalier::checkpoint {

struct Block {
    std::int64_t row = 0;
    std::int64_t column = 0;
    std::int64_t rows = 0;
    std::int64_t columns = 0;

    std::int64_t elements() const { return rows * columns; }
    bool operator==(const Block&) const = default;
};

// A box as the model speaks of it, in the orientation in which it is stored.
Block stored_block(const model::Box& box, bool transposed);
// The whole of a stored vector or matrix.
Block whole_block(const std::vector<std::int64_t>& shape);
std::optional<Block> intersection(const Block& a, const Block& b);

// Puts element (i, j) of `block`, counted from its corner, to out[i * row_step + j * column_step] as f32.
// data: the whole tensor of `columns` columns, at any alignment; dtype: F32, F16 or BF16.
void read_block(const char* data, const std::string& dtype, std::int64_t columns, const Block& block,
                float* out, std::int64_t row_step, std::int64_t column_step);

}  // namespace escalier::checkpoint
