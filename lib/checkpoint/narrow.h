// Rounding of f32 weights to the types that safetensors files hold.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace escalier::checkpoint {

// "F32", "BF16" or "F16" of "fp32", "bf16" or "fp16".
std::string stored_dtype(const std::string& dtype);
std::size_t stored_width(const std::string& stored_dtype);  // bytes per element

// Rounds to nearest, ties to even, into out (values.size() elements of `stored_dtype`). Returns the index of
// the first finite value that became infinite, or values.size().
std::size_t narrow(std::span<const float> values, const std::string& stored_dtype, char* out);

}  // namespace escalier::checkpoint
