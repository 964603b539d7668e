// Whole tensors of any source looked at piece by piece: one bounded block of rows at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/tensor_source.h"

namespace escalier::checkpoint {

// Calls `look` with the elements of a stored vector or matrix as f32, in their order, and the place of the
// first of them. Throws DataError for a tensor of other rank or type, naming it.
void scan_tensor(const TensorSource& source, const std::string& name,
                 const std::function<void(std::int64_t first, std::span<const float> values)>& look);

// "[3, 17]" of the element at this place of the tensor.
std::string index_text(const std::vector<std::int64_t>& shape, std::int64_t place);

// Throws DataError that names the tensor and the place of the first element that is NaN or infinite. what:
// "tensor", "exp_avg of tensor".
void require_finite(const TensorSource& source, const std::string& name, const std::string& what);

struct TensorDifference {
    std::int64_t elements = 0;    // of the tensor
    std::int64_t differing = 0;   // unequal as numbers; two NaNs are equal
    double largest = 0;           // |a - b|, infinite where one is no finite number
    double largest_relative = 0;  // |a - b| / max(|a|, |b|), of any element
    std::int64_t place = 0;       // of the largest
    float a = 0, b = 0;           // the elements there
};

// Both sources have `name` with the same shape.
TensorDifference compare_tensor(const TensorSource& a, const TensorSource& b, const std::string& name);

}  // namespace escalier::checkpoint
