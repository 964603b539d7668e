#include "kernels/elementwise.h"

#include <cstring>

#include "core/bfloat16.h"
#include "kernels/common/blocks.h"
#include "kernels/common/cpu_twins.h"
#include "kernels/common/rows.h"
#include "kernels/common/simd.h"

namespace escalier::kernels::cpu {
namespace {

ESCALIER_VECTORIZED double sum_of_squares_range(const float* x, std::int64_t n) {
    using DoubleLanes = double __attribute__((vector_size(128)));
    DoubleLanes sums{};
    sweep(n, [&](std::int64_t i, auto lanes) {
        const DoubleLanes value = __builtin_convertvector(load(x + i, lanes), DoubleLanes);
        sums += value * value;
    });
    double total = 0.0;
    for (int lane = 0; lane < lane_count; ++lane) total += sums[lane];
    return total;
}

ESCALIER_VECTORIZED std::int64_t count_nonfinite_range(const float* x, std::int64_t n) {
    IntLanes counts{};  // each lane counts down; a block is far shorter than 2^31
    sweep(n, [&](std::int64_t i, auto lanes) {
        const IntLanes bits = std::bit_cast<IntLanes>(load(x + i, lanes));
        counts += (bits & 0x7F800000) == 0x7F800000;
    });
    std::int64_t total = 0;
    for (int lane = 0; lane < lane_count; ++lane) total -= counts[lane];
    return total;
}

template <class To, class From, class Convert>
void convert(const OpContext& context, To* out, const From* in, std::int64_t n, Convert convert_one) {
    for_blocks(context, n, elements_per_task, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t i = begin; i < end; ++i) out[i] = convert_one(in[i]);
    });
}

// At most 256 blocks, so that their results fit on the stack.
constexpr std::int64_t max_blocks = 256;
std::int64_t reduction_block(std::int64_t n) {
    return std::max(elements_per_task, round_up(ceil_div(n, max_blocks), lane_count));
}

template <class Sum, class Range>
Sum sum_over_blocks(const OpContext& context, const float* x, std::int64_t n, Range range) {
    const std::int64_t block = reduction_block(n);
    Sum partial[max_blocks];
    for_blocks(context, n, block, [&](std::int64_t begin, std::int64_t end, int) {
        partial[begin / block] = range(x + begin, end - begin);
    });
    Sum total = 0;
    for (std::int64_t i = 0; i < ceil_div(n, block); ++i) total += partial[i];
    return total;
}

}  // namespace

void residual_add(const OpContext& context, TensorView sum, TensorView residual, TensorView delta,
                  TensorView delta_bias) {
    const std::int64_t columns = columns_of(sum);
    ESCALIER_CHECK(residual.elements() == sum.elements() && delta.elements() == sum.elements(),
                   "shapes differ");
    ESCALIER_CHECK(!delta_bias.has_data() || delta_bias.elements() == columns, "bias has another length");
    float* out = sum.as<float>();
    const float *a = residual.as<float>(), *b = delta.as<float>(), *bias = delta_bias.as<float>();
    for_row_blocks(context, rows_of(sum), columns, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t at = begin * columns; at < end * columns; at += columns)
            residual_row(out + at, a + at, b + at, bias, columns);
    });
}

void fill(const OpContext& context, TensorView x, float value) {
    float* out = x.as<float>();
    for_blocks(context, x.elements(), elements_per_task,
               [&](std::int64_t begin, std::int64_t end, int) { std::fill(out + begin, out + end, value); });
}

void copy(const OpContext& context, TensorView out, TensorView in) {
    ESCALIER_CHECK(out.elements() == in.elements(), "shapes differ");
    if (out.dtype() == DType::bf16 && in.dtype() == DType::f32)
        return convert(context, out.as<BFloat16>(), in.as<float>(), in.elements(), to_bfloat16);
    if (out.dtype() == DType::f32 && in.dtype() == DType::bf16)
        return convert(context, out.as<float>(), in.as<BFloat16>(), in.elements(),
                       [](BFloat16 value) { return to_float(value); });
    ESCALIER_CHECK(out.dtype() == in.dtype(), "copy between these element types");
    char* to = static_cast<char*>(out.data());
    const char* from = static_cast<const char*>(in.data());
    for_blocks(context, static_cast<std::int64_t>(out.bytes()), elements_per_task * 4,
               [&](std::int64_t begin, std::int64_t end, int) {
                   std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
               });
}

void add(const OpContext& context, TensorView out, TensorView in) {
    ESCALIER_CHECK(out.elements() == in.elements(), "shapes differ");
    float* to = out.as<float>();
    const float* from = in.as<float>();
    for_blocks(context, out.elements(), elements_per_task, [&](std::int64_t begin, std::int64_t end, int) {
        add_row(to + begin, from + begin, end - begin);
    });
}

void sum_parts(const OpContext& context, TensorView out, TensorView parts) {
    const std::int64_t n = out.elements(), count = n ? parts.elements() / n : 0;
    ESCALIER_CHECK(parts.elements() == count * n, "parts do not fit");
    float* sum = out.as<float>();
    const float* part = parts.as<float>();
    for_blocks(context, n, elements_per_task, [&](std::int64_t begin, std::int64_t end, int) {
        std::copy(part + begin, part + end, sum + begin);
        for (std::int64_t p = 1; p < count; ++p) add_row(sum + begin, part + p * n + begin, end - begin);
    });
}

void sum_of_squares(const OpContext& context, TensorView sums, std::span<const SumTerm> terms) {
    for (const SumTerm& term : terms)
        sums.as<double>()[term.place] =
            sum_over_blocks<double>(context, term.x.as<float>(), term.x.elements(), sum_of_squares_range);
}

void count_nonfinite(const OpContext& context, TensorView count, TensorView x, Accumulate accumulate) {
    double& total = *count.as<double>();
    if (accumulate == Accumulate::overwrite) total = 0;
    total += static_cast<double>(
        sum_over_blocks<std::int64_t>(context, x.as<float>(), x.elements(), count_nonfinite_range));
}

}  // namespace escalier::kernels::cpu
