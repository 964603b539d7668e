#include "kernels/cross_entropy.h"

#include <cmath>
#include <limits>

#include "kernels/common/blocks.h"
#include "kernels/common/cpu_twins.h"
#include "kernels/common/exp.h"

namespace escalier::kernels::cpu {
namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

ESCALIER_VECTORIZED float row_maximum(const float* logits, std::int64_t n) {
    FloatLanes largest = broadcast(minus_infinity);
    sweep(n, [&](std::int64_t i, auto lanes) {
        largest = maximum(load(logits + i, lanes, minus_infinity), largest);
    });
    return maximum_of(largest);
}

// Lanes add up short stretches in float, which are then added in double: the vocabulary is long.
ESCALIER_VECTORIZED float row_sum_of_exp(const float* logits, std::int64_t n, float maximum) {
    constexpr std::int64_t stretch = 2048;
    double total = 0.0;
    for (std::int64_t begin = 0; begin < n; begin += stretch) {
        FloatLanes sums{};
        sweep(std::min(stretch, n - begin), [&](std::int64_t i, auto lanes) {
            sums += exp_lanes(load(logits + begin + i, lanes, minus_infinity) - maximum);
        });
        total += sum_of(sums);
    }
    return static_cast<float>(total);
}

ESCALIER_VECTORIZED void row_gradient(float* logits, std::int64_t n, float maximum, float factor) {
    sweep(n, [&](std::int64_t i, auto lanes) {
        store(logits + i, exp_lanes(load(logits + i, lanes) - maximum) * factor, lanes);
    });
}

struct RowTotal {
    float maximum, sum, target_logit;
};

// Combines the statistics of all tensor ranks for one row, in rank order.
RowTotal combine(const float* statistics, std::int64_t ranks, std::int64_t stride) {
    RowTotal total = {minus_infinity, 0.0f, 0.0f};
    for (std::int64_t rank = 0; rank < ranks; ++rank)
        total.maximum = std::max(total.maximum, statistics[rank * stride]);
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
        const float* own = statistics + rank * stride;
        if (own[0] != minus_infinity) total.sum += own[1] * std::exp(own[0] - total.maximum);
        total.target_logit += own[2];
    }
    return total;
}

}  // namespace

void cross_entropy_statistics(const OpContext& context, TensorView statistics, TensorView logits,
                              TensorView targets, std::int64_t vocab_begin, std::int64_t valid) {
    const std::int64_t columns = columns_of(logits), rows = targets.elements();
    ESCALIER_CHECK(logits.elements() == rows * columns && statistics.elements() == rows * 3, "shapes differ");
    ESCALIER_CHECK(valid <= columns, "more valid columns than columns");
    valid = std::max<std::int64_t>(valid, 0);
    float* out = statistics.as<float>();
    const float* in = logits.as<float>();
    const std::int32_t* ids = targets.as<std::int32_t>();
    for_row_blocks(context, rows, columns, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t row = begin; row < end; ++row) {
            const float* own = in + row * columns;
            const float maximum = row_maximum(own, valid);
            const std::int64_t target = ids[row] - vocab_begin;
            out[row * 3] = maximum;
            out[row * 3 + 1] = row_sum_of_exp(own, valid, maximum);
            out[row * 3 + 2] = ids[row] >= 0 && target >= 0 && target < valid ? own[target] : 0.0f;
        }
    });
}

void cross_entropy_finish(const OpContext& context, TensorView losses, TensorView logits,
                          TensorView all_statistics, TensorView targets, std::int64_t vocab_begin,
                          std::int64_t valid, const float* scale_at, bool gradient) {
    const std::int64_t columns = columns_of(logits), rows = targets.elements();
    ESCALIER_CHECK(logits.elements() == rows * columns && losses.elements() == rows, "shapes differ");
    if (rows == 0) return;
    const float scale = gradient ? *scale_at : 0.0f;
    const std::int64_t ranks = all_statistics.elements() / (rows * 3);
    ESCALIER_CHECK(ranks > 0 && all_statistics.elements() == ranks * rows * 3, "statistics do not fit");
    valid = std::max<std::int64_t>(valid, 0);
    float *loss = losses.as<float>(), *data = logits.as<float>();
    const float* statistics = all_statistics.as<float>();
    const std::int32_t* ids = targets.as<std::int32_t>();
    for_row_blocks(context, rows, columns, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t row = begin; row < end; ++row) {
            float* own = data + row * columns;
            const bool counted = ids[row] >= 0;
            const RowTotal total = combine(statistics + row * 3, ranks, rows * 3);
            loss[row] = counted ? std::log(total.sum) + total.maximum - total.target_logit : 0.0f;
            if (!gradient) continue;
            const std::int64_t real = counted ? valid : 0;
            row_gradient(own, real, total.maximum, scale / total.sum);
            std::fill(own + real, own + columns, 0.0f);
            const std::int64_t target = ids[row] - vocab_begin;
            if (counted && target >= 0 && target < valid) own[target] -= scale;
        }
    });
}

void sum_losses(const OpContext&, TensorView sum, TensorView losses, Accumulate accumulate) {
    const float* values = losses.as<float>();
    double total = accumulate == Accumulate::add ? *sum.as<double>() : 0.0;
    for (std::int64_t i = 0; i < losses.elements(); ++i) total += values[i];
    *sum.as<double>() = total;
}

}  // namespace escalier::kernels::cpu
