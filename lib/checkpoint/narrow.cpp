#include "checkpoint/narrow.h"

#include <immintrin.h>

#include <cmath>
#include <cstring>

#include "core/bfloat16.h"
#include "core/error.h"

namespace escalier::checkpoint {

namespace {

std::uint16_t bf16_bits(float value) {
    return to_bfloat16(value).bits;
}
std::uint16_t f16_bits(float value) {
    return static_cast<std::uint16_t>(_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT));
}

template <class ToBits>
std::size_t narrow_to(std::span<const float> values, ToBits to_bits, std::uint16_t infinity, char* out) {
    std::size_t first = values.size();
    for (std::size_t i = 0; i < values.size(); ++i) {
        const std::uint16_t bits = to_bits(values[i]);
        std::memcpy(out + 2 * i, &bits, 2);
        if ((bits & 0x7FFF) == infinity && std::isfinite(values[i]) && first == values.size()) first = i;
    }
    return first;
}

}  // namespace

std::string stored_dtype(const std::string& dtype) {
    if (dtype == "fp32") return "F32";
    if (dtype == "bf16") return "BF16";
    if (dtype == "fp16") return "F16";
    throw InternalError("no type of weights is called " + dtype);
}

std::size_t stored_width(const std::string& stored_dtype) {
    return stored_dtype == "F32" ? 4 : 2;
}

std::size_t narrow(std::span<const float> values, const std::string& stored_dtype, char* out) {
    if (stored_dtype == "BF16") return narrow_to(values, bf16_bits, 0x7F80, out);
    if (stored_dtype == "F16") return narrow_to(values, f16_bits, 0x7C00, out);
    if (!values.empty()) std::memcpy(out, values.data(), values.size_bytes());
    return values.size();
}

}  // namespace escalier::checkpoint
