// Element types of tensors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/check.h"

namespace escalier {

enum class DType { f32, bf16, i32, f64, u8, u64 };

constexpr std::size_t size_of(DType dtype) {
    switch (dtype) {
        case DType::f32:
            return 4;
        case DType::bf16:
            return 2;
        case DType::i32:
            return 4;
        case DType::f64:
            return 8;
        case DType::u8:
            return 1;
        case DType::u64:
            return 8;
    }
    return 0;
}

template <class T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() {
    return DType::f32;
}
template <>
constexpr DType dtype_of<int>() {
    return DType::i32;
}
template <>
constexpr DType dtype_of<double>() {
    return DType::f64;
}
template <>
constexpr DType dtype_of<unsigned char>() {
    return DType::u8;
}
template <>
constexpr DType dtype_of<std::uint64_t>() {
    return DType::u64;
}

}  // namespace escalier
