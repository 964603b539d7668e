#include "kernels/qk_norm.h"

#include <cstring>

#include "kernels/common/column_sums.h"
#include "kernels/common/cpu_twins.h"
#include "kernels/common/qkv_layout.h"
#include "kernels/common/rms_row.h"

namespace escalier::kernels::cpu {

void qk_norm_forward(const OpContext& context, TensorView out, TensorView rstd, TensorView qkv,
                     TensorView query_weight, TensorView key_weight, std::int64_t heads,
                     std::int64_t kv_heads, float eps) {
    const QkvLayout layout(qkv, heads, kv_heads);
    const std::int64_t size = layout.head_size, normed = heads + kv_heads;
    ESCALIER_CHECK(out.elements() == qkv.elements() && rstd.elements() == layout.rows * normed,
                   "shapes differ");
    ESCALIER_CHECK(query_weight.elements() == size && key_weight.elements() == size, "one gain per channel");
    float *to = out.as<float>(), *rstds = rstd.as<float>();
    const float *from = qkv.as<float>(), *gain_q = query_weight.as<float>(), *gain_k = key_weight.as<float>();
    for_row_blocks(context, layout.rows, layout.columns, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t row = begin; row < end; ++row) {
            const std::int64_t at = row * layout.columns;
            for (std::int64_t head = 0; head < normed; ++head)
                rms_row_forward(to + at + head * size, rstds + row * normed + head, from + at + head * size,
                                head < heads ? gain_q : gain_k, size, eps);
            std::memmove(to + at + layout.value(0), from + at + layout.value(0),
                         static_cast<std::size_t>(kv_heads * size) * sizeof(float));
        }
    });
}

void qk_norm_backward(const OpContext& context, TensorView dqkv, TensorView dquery_weight,
                      TensorView dkey_weight, TensorView qkv, TensorView rstd, TensorView query_weight,
                      TensorView key_weight, std::int64_t heads, std::int64_t kv_heads,
                      Accumulate accumulate) {
    const QkvLayout layout(qkv, heads, kv_heads);
    const std::int64_t size = layout.head_size, normed = heads + kv_heads;
    ESCALIER_CHECK(dqkv.elements() == qkv.elements() && rstd.elements() == layout.rows * normed,
                   "shapes differ");
    float* gradient = dqkv.as<float>();
    const float *in = qkv.as<float>(), *rstds = rstd.as<float>();
    const float *gain_q = query_weight.as<float>(), *gain_k = key_weight.as<float>();
    ColumnSums sums(context, layout.rows, size, 2);
    sums.for_row_blocks([&](std::int64_t begin, std::int64_t end, float** partial) {
        for (std::int64_t row = begin; row < end; ++row)
            for (std::int64_t head = 0; head < normed; ++head) {
                const std::int64_t at = row * layout.columns + head * size;
                const bool is_query = head < heads;
                rms_row_backward(gradient + at, partial[is_query ? 0 : 1], nullptr, gradient + at, in + at,
                                 rstds[row * normed + head], is_query ? gain_q : gain_k, size);
            }
    });
    sums.finish(dquery_weight.as<float>(), 0, accumulate);
    sums.finish(dkey_weight.as<float>(), 1, accumulate);
}

}  // namespace escalier::kernels::cpu
