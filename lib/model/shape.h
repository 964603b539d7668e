// Extents of a model as one tensor rank sees them: the dimension letters of kernels/ops.h with their divisors
// applied.
#pragma once

#include <cstdint>

#include "config/job_spec.h"
#include "parallel/grid.h"

namespace escalier::model {

struct ModelShape {
    std::int64_t batch, sequence, rows;       // B, T, R = B*T
    std::int64_t hidden;                      // C
    std::int64_t heads, kv_heads, head_size;  // NH/tp, max(1, NKV/tp), HS
    std::int64_t ffn;                         // F/tp
    std::int64_t vocab_rows;                  // padded V/tp
    std::int64_t vocab_begin, vocab_valid;    // first id of the shard; how many of its rows are real
    std::int64_t first_head, first_kv_head, first_ffn;  // where the shards begin

    std::int64_t attention_width() const { return heads * head_size; }
    std::int64_t qkv_width() const { return (heads + 2 * kv_heads) * head_size; }
};

// The config is resolved: extents divide, or key/value heads are replicated.
ModelShape shape_of(const config::ModelConfig& model, std::int64_t micro_batch, std::int64_t seq_len, int tp,
                    int tp_rank);

}  // namespace escalier::model
