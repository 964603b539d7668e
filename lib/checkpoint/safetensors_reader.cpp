#include <bit>
#include <cmath>
#include <cstring>

#include "checkpoint/safetensors.h"

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

// Elements [begin, begin + count) of a tensor as f32; the file promises no alignment.
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

SafetensorsReader::SafetensorsReader(const std::string& path)
    : path_(path), file_(path), header_(parse_header(file_.bytes(), path)) {}

void SafetensorsReader::read_box(const std::string& name, const model::Box& box, bool transposed,
                                 float* out) const {
    const StoredTensor& tensor = header_.tensors.at(name);
    if (tensor.dtype != "F32" && tensor.dtype != "F16" && tensor.dtype != "BF16")
        throw DataError(path_ + ": tensor '" + name + "' is " + tensor.text() +
                        "; weights are read from F32, F16 or BF16. Convert the file.");
    const char* data = file_.bytes().data() + header_.data_begin + tensor.begin;
    if (box.extent.rank() == 1) {
        convert(data, tensor.dtype, box.offset[0], box.extent[0], out);
        return;
    }
    const std::int64_t rows = box.extent[0], columns = box.extent[1];
    if (!transposed) {
        for (std::int64_t row = 0; row < rows; ++row)
            convert(data, tensor.dtype, (box.offset[0] + row) * tensor.shape[1] + box.offset[1], columns,
                    out + row * columns);
        return;
    }
    std::vector<float> stored_row(static_cast<std::size_t>(rows));
    for (std::int64_t column = 0; column < columns; ++column) {
        convert(data, tensor.dtype, (box.offset[1] + column) * tensor.shape[1] + box.offset[0], rows,
                stored_row.data());
        for (std::int64_t row = 0; row < rows; ++row)
            out[row * columns + column] = stored_row[static_cast<std::size_t>(row)];
    }
}

}  // namespace escalier::checkpoint
