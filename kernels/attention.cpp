#include "kernels/attention.h"

#include <cmath>
#include <limits>

#include "kernels/common/attention_blocks.h"
#include "kernels/common/cpu_twins.h"
#include "kernels/common/exp.h"
#include "kernels/common/qkv_layout.h"
#include "kernels/common/sgemm.h"

namespace escalier::kernels::cpu {
namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

struct SoftmaxRow {
    float sum;         // of exp(score - maximum)
    float log_of_sum;  // log of the sum of exp(score)
};

// Fills the rest of the last vector of a row, so that sweeps have no ragged end; a row of scores has room for
// it. Zeroes follow up to `end`.
ESCALIER_INLINE void close_row(float* scores, std::int64_t valid, std::int64_t end, float filler) {
    const std::int64_t closed = round_up(valid, lane_count);
    std::fill(scores + valid, scores + closed, filler);
    if (end > closed) std::fill(scores + closed, scores + end, 0.0f);
}

// scores[0, valid) become exp(score - maximum), those up to `end` zero.
ESCALIER_VECTORIZED SoftmaxRow softmax_row(float* scores, std::int64_t valid, std::int64_t end) {
    close_row(scores, valid, end, minus_infinity);
    FloatLanes largest = broadcast(minus_infinity), sums{};
    for (std::int64_t i = 0; i < valid; i += lane_count)
        largest = maximum(load(scores + i, AllLanes{}), largest);
    const float maximum = maximum_of(largest);
    for (std::int64_t i = 0; i < valid; i += lane_count) {
        const FloatLanes value = exp_lanes(load(scores + i, AllLanes{}) - maximum);
        sums += value;
        store(scores + i, value, AllLanes{});
    }
    const float sum = sum_of(sums);
    return {sum, maximum + std::log(sum)};
}

// scores[0, valid) become probabilities, those up to `end` zero.
ESCALIER_VECTORIZED void probability_row(float* scores, float lse, std::int64_t valid, std::int64_t end) {
    close_row(scores, valid, end, minus_infinity);
    for (std::int64_t i = 0; i < valid; i += lane_count)
        store(scores + i, exp_lanes(load(scores + i, AllLanes{}) - lse), AllLanes{});
}

ESCALIER_VECTORIZED void scale_row(float* row, float factor, std::int64_t n) {
    sweep(n, [&](std::int64_t i, auto lanes) { store(row + i, load(row + i, lanes) * factor, lanes); });
}

ESCALIER_VECTORIZED float dot_row(const float* a, const float* b, std::int64_t n) {
    FloatLanes sums{};
    sweep(n, [&](std::int64_t i, auto lanes) { sums += load(a + i, lanes) * load(b + i, lanes); });
    return sum_of(sums);
}

// The gradient of the scores: dprobability becomes probability * (dprobability - delta) * scale.
ESCALIER_VECTORIZED void score_gradient_row(float* gradient, const float* probability, float delta,
                                            float scale, std::int64_t n) {
    sweep(n, [&](std::int64_t i, auto lanes) {
        store(gradient + i, load(probability + i, lanes) * (load(gradient + i, lanes) - delta) * scale,
              lanes);
    });
}

// Shared by both passes: where things lie.
struct Attention {
    QkvLayout layout;
    std::int64_t sequence, blocks, stride;
    float scale;
    const float *qkv, *lse;

    Attention(const TensorView& qkv_view, const TensorView& out, const TensorView& lse_view,
              std::int64_t batch, std::int64_t sequence_in, std::int64_t heads, std::int64_t kv_heads)
        : layout(qkv_view, heads, kv_heads),
          sequence(sequence_in),
          blocks(ceil_div(sequence_in, attention_block)),
          stride(attention_score_stride(sequence_in)),
          scale(1.0f / std::sqrt(static_cast<float>(layout.head_size))),
          qkv(qkv_view.as<float>()),
          lse(lse_view.as<float>()) {
        ESCALIER_CHECK(layout.rows == batch * sequence, "qkv must hold batch * sequence rows");
        ESCALIER_CHECK(out.elements() == layout.rows * heads * layout.head_size, "out has another shape");
        ESCALIER_CHECK(lse_view.elements() == layout.rows * heads, "lse has another shape");
    }
    std::int64_t group() const { return layout.heads / layout.kv_heads; }
    std::int64_t block_rows(std::int64_t block) const {
        return std::min(attention_block, sequence - block * attention_block);
    }
    // Scores of a block of query rows against all keys up to the block's last.
    void scores(float* to, std::int64_t batch, std::int64_t head, std::int64_t block) const {
        const std::int64_t first = block * attention_block, rows = block_rows(block);
        const float* base = qkv + batch * sequence * layout.columns;
        sgemm(Transpose::no, Transpose::yes, rows, first + rows, layout.head_size, scale,
              base + first * layout.columns + layout.query(head), layout.columns,
              base + layout.key(head / group()), layout.columns, 0.0f, to, stride);
    }
};

struct BackwardViews {
    float* dqkv;
    const float *dout, *out;
};

// One block of query rows of one head: dq of the block, and its share of dk and dv of all keys up to it.
void backward_block(const Attention& at, const BackwardViews& views, float* probabilities, std::int64_t batch,
                    std::int64_t head, std::int64_t block, float beta) {
    const QkvLayout& layout = at.layout;
    const std::int64_t first = block * attention_block, rows = at.block_rows(block), keys = first + rows;
    const std::int64_t size = layout.head_size, ld = layout.columns, out_ld = layout.heads * size;
    const std::int64_t kv_head = head / at.group(), base = batch * at.sequence * ld;
    const std::int64_t out_base = (batch * at.sequence + first) * out_ld + head * size;
    const float* lse = at.lse + (batch * layout.heads + head) * at.sequence + first;
    float* gradients = probabilities + attention_block * at.stride;

    at.scores(probabilities, batch, head, block);
    for (std::int64_t row = 0; row < rows; ++row)
        probability_row(probabilities + row * at.stride, lse[row], first + row + 1, keys);
    const float* dout = views.dout + out_base;
    sgemm(Transpose::yes, Transpose::no, keys, size, rows, 1.0f, probabilities, at.stride, dout, out_ld, beta,
          views.dqkv + base + layout.value(kv_head), ld);
    sgemm(Transpose::no, Transpose::yes, rows, keys, size, 1.0f, dout, out_ld,
          at.qkv + base + layout.value(kv_head), ld, 0.0f, gradients, at.stride);
    for (std::int64_t row = 0; row < rows; ++row) {
        const float delta = dot_row(dout + row * out_ld, views.out + out_base + row * out_ld, size);
        score_gradient_row(gradients + row * at.stride, probabilities + row * at.stride, delta, at.scale,
                           keys);
    }
    sgemm(Transpose::no, Transpose::no, rows, size, keys, 1.0f, gradients, at.stride,
          at.qkv + base + layout.key(kv_head), ld, 0.0f, views.dqkv + base + first * ld + layout.query(head),
          ld);
    sgemm(Transpose::yes, Transpose::no, keys, size, rows, 1.0f, gradients, at.stride,
          at.qkv + base + first * ld + layout.query(head), ld, beta, views.dqkv + base + layout.key(kv_head),
          ld);
}

}  // namespace

void attention_forward(const OpContext& context, TensorView out, TensorView lse, TensorView qkv,
                       std::int64_t batch, std::int64_t sequence, std::int64_t heads, std::int64_t kv_heads) {
    const Attention at(qkv, out, lse, batch, sequence, heads, kv_heads);
    const std::int64_t size = at.layout.head_size, ld = at.layout.columns, out_ld = heads * size;
    float *to = out.as<float>(), *lse_out = lse.as<float>();
    const auto scratch = static_cast<std::size_t>(attention_scratch_elements(sequence));
    // The last block of every head first: it is the longest.
    context.pool().parallel_for(batch * heads * at.blocks, [&](std::int64_t task, int thread) {
        const std::int64_t block = at.blocks - 1 - task / (batch * heads);
        const std::int64_t head = task % heads, sample = task / heads % batch;
        const std::int64_t first = block * attention_block, rows = at.block_rows(block), keys = first + rows;
        float* scores = context.scratch<float>(thread, scratch);
        float sums[attention_block];
        at.scores(scores, sample, head, block);
        for (std::int64_t row = 0; row < rows; ++row) {
            const SoftmaxRow softmax = softmax_row(scores + row * at.stride, first + row + 1, keys);
            sums[row] = softmax.sum;
            lse_out[(sample * heads + head) * sequence + first + row] = softmax.log_of_sum;
        }
        float* target = to + (sample * sequence + first) * out_ld + head * size;
        sgemm(Transpose::no, Transpose::no, rows, size, keys, 1.0f, scores, at.stride,
              at.qkv + sample * sequence * ld + at.layout.value(head / at.group()), ld, 0.0f, target, out_ld);
        for (std::int64_t row = 0; row < rows; ++row)
            scale_row(target + row * out_ld, 1.0f / sums[row], size);
    });
}

void attention_backward(const OpContext& context, TensorView dqkv, TensorView dout, TensorView out,
                        TensorView lse, TensorView qkv, std::int64_t batch, std::int64_t sequence,
                        std::int64_t heads, std::int64_t kv_heads) {
    const Attention at(qkv, out, lse, batch, sequence, heads, kv_heads);
    ESCALIER_CHECK(dqkv.elements() == qkv.elements() && dout.elements() == out.elements(), "shapes differ");
    const BackwardViews views = {dqkv.as<float>(), dout.as<float>(), out.as<float>()};
    const auto scratch = static_cast<std::size_t>(attention_scratch_elements(sequence));
    // A task owns a key/value head: the query heads of its group add into dk and dv one after the other. Its
    // first block is the last of the sequence, which touches all keys and so needs no zeroes to add to.
    context.pool().parallel_for(batch * kv_heads, [&](std::int64_t task, int thread) {
        const std::int64_t sample = task / kv_heads, kv_head = task % kv_heads;
        float* probabilities = context.scratch<float>(thread, scratch);
        float beta = 0.0f;
        for (std::int64_t head = kv_head * at.group(); head < (kv_head + 1) * at.group(); ++head)
            for (std::int64_t block = at.blocks - 1; block >= 0; --block) {
                backward_block(at, views, probabilities, sample, head, block, beta);
                beta = 1.0f;
            }
    });
}

}  // namespace escalier::kernels::cpu
