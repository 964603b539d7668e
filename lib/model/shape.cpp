#include "model/shape.h"

#include <algorithm>

#include "config/model_facts.h"

namespace escalier::model {

ModelShape shape_of(const config::ModelConfig& model, std::int64_t micro_batch, std::int64_t seq_len, int tp,
                    int tp_rank) {
    ModelShape s{};
    s.batch = micro_batch;
    s.sequence = seq_len;
    s.rows = micro_batch * seq_len;
    s.hidden = model.hidden_size;
    s.head_size = model.head_dim;
    s.heads = model.num_heads / tp;
    s.first_head = s.heads * tp_rank;
    s.kv_heads = std::max<std::int64_t>(1, model.num_kv_heads / tp);
    s.first_kv_head = model.num_kv_heads * tp_rank / tp;
    s.ffn = model.ffn_size / tp;
    s.first_ffn = s.ffn * tp_rank;
    s.vocab_rows = config::padded_vocab(model.vocab_size, tp) / tp;
    s.vocab_begin = s.vocab_rows * tp_rank;
    s.vocab_valid = std::clamp<std::int64_t>(model.vocab_size - s.vocab_begin, 0, s.vocab_rows);
    return s;
}

}  // namespace escalier::model
