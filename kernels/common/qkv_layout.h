// The layout of a row of qkv: NH query heads, NKV key heads, NKV value heads, each HS wide.
#pragma once

#include "core/tensor_view.h"
#include "kernels/common/blocks.h"

namespace escalier::kernels {

struct QkvLayout {
    std::int64_t heads, kv_heads, head_size;
    std::int64_t rows, columns;

    QkvLayout(const TensorView& qkv, std::int64_t heads_in, std::int64_t kv_heads_in)
        : heads(heads_in), kv_heads(kv_heads_in), rows(rows_of(qkv)), columns(columns_of(qkv)) {
        ESCALIER_CHECK(kv_heads > 0 && heads % kv_heads == 0, "kv heads must divide heads");
        ESCALIER_CHECK(columns % (heads + 2 * kv_heads) == 0, "heads do not divide the row of qkv");
        head_size = columns / (heads + 2 * kv_heads);
    }
    std::int64_t query(std::int64_t head) const { return head * head_size; }
    std::int64_t key(std::int64_t kv_head) const { return (heads + kv_head) * head_size; }
    std::int64_t value(std::int64_t kv_head) const { return (heads + kv_heads + kv_head) * head_size; }
};

}  // namespace escalier::kernels
