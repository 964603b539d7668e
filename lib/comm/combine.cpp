#include "comm/combine.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "core/bfloat16.h"
#include "core/check.h"

namespace escalier::comm {

namespace {

template <class T>
struct Sum {
    T operator()(T a, T b) const { return a + b; }
};
template <class T>
struct Max {
    T operator()(T a, T b) const {
        if constexpr (std::is_floating_point_v<T>)
            if (std::isnan(a) || std::isnan(b)) return a + b;
        return std::max(a, b);
    }
};

template <class T, class Op>
void combine_two(T* out, const T* a, const T* b, std::int64_t elements, Op op) {
#pragma GCC ivdep  // out is apart from a and b, or equal to one of them
    for (std::int64_t i = 0; i < elements; ++i) out[i] = op(a[i], b[i]);
}

// Blockwise through a small accumulator, so that several sources are read once each and the destination,
// which may be a source, is written last.
template <class T, class Op>
void combine_many(T* out, const void* const* sources, int count, std::int64_t elements, Op op) {
    constexpr std::int64_t block = 1024;
    T sum[block];
    for (std::int64_t begin = 0; begin < elements; begin += block) {
        const std::int64_t length = std::min(block, elements - begin);
        std::memcpy(sum, static_cast<const T*>(sources[0]) + begin,
                    static_cast<std::size_t>(length) * sizeof(T));
        for (int s = 1; s < count; ++s) {
            const T* source = static_cast<const T*>(sources[s]) + begin;
            for (std::int64_t i = 0; i < length; ++i) sum[i] = op(sum[i], source[i]);
        }
        std::memcpy(out + begin, sum, static_cast<std::size_t>(length) * sizeof(T));
    }
}

template <class T, class Op>
void combine_typed(void* out, const void* const* sources, int count, std::int64_t elements, Op op) {
    if (count == 2)
        combine_two(static_cast<T*>(out), static_cast<const T*>(sources[0]),
                    static_cast<const T*>(sources[1]), elements, op);
    else
        combine_many(static_cast<T*>(out), sources, count, elements, op);
}

// In float, rounded once at the end.
void sum_bfloat16(BFloat16* out, const void* const* sources, int count, std::int64_t elements) {
    constexpr std::int64_t block = 1024;
    float sum[block];
    for (std::int64_t begin = 0; begin < elements; begin += block) {
        const std::int64_t length = std::min(block, elements - begin);
        const auto source = [&](int s) { return static_cast<const BFloat16*>(sources[s]) + begin; };
        for (std::int64_t i = 0; i < length; ++i) sum[i] = to_float(source(0)[i]);
        for (int s = 1; s < count; ++s) {
            const BFloat16* x = source(s);
            for (std::int64_t i = 0; i < length; ++i) sum[i] += to_float(x[i]);
        }
        for (std::int64_t i = 0; i < length; ++i) out[begin + i] = to_bfloat16(sum[i]);
    }
}

}  // namespace

bool can_combine(Combine combine, DType dtype) {
    return combine == Combine::sum ? dtype == DType::f32 || dtype == DType::f64 || dtype == DType::bf16
                                   : dtype == DType::f64 || dtype == DType::i32;
}

void combine_in_order(Combine combine, DType dtype, void* destination, const void* const* sources, int count,
                      std::int64_t elements) {
    ESCALIER_CHECK(can_combine(combine, dtype), "this reduction does not exist for this element type");
    if (combine == Combine::sum && dtype == DType::f32)
        combine_typed<float>(destination, sources, count, elements, Sum<float>{});
    else if (combine == Combine::sum && dtype == DType::bf16)
        sum_bfloat16(static_cast<BFloat16*>(destination), sources, count, elements);
    else if (combine == Combine::sum)
        combine_typed<double>(destination, sources, count, elements, Sum<double>{});
    else if (dtype == DType::f64)
        combine_typed<double>(destination, sources, count, elements, Max<double>{});
    else
        combine_typed<int>(destination, sources, count, elements, Max<int>{});
}

}  // namespace escalier::comm
