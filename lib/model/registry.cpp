#include "model/registry.h"

namespace escalier::model {

namespace {

constexpr int entries_per_block = 20;  // no block has more
constexpr int entries_before_blocks = 2;

int first_index_of_block(std::int64_t layer) {
    return entries_before_blocks + entries_per_block * static_cast<int>(layer);
}

}  // namespace

int count_global_entries(std::int64_t num_layers) {
    return first_index_of_block(num_layers) + 4;
}

Registry::Registry(const config::ModelConfig& model, const ModelShape& shape, int tp, int tp_rank, int stage,
                   device::Arenas& arenas, kernels::PreparedWeightElements& prepared_elements, DType storage)
    : model_(model),
      shape_(shape),
      tp_(tp),
      tp_rank_(tp_rank),
      stage_(stage),
      arenas_(arenas),
      prepared_elements_(prepared_elements),
      storage_(storage) {}

Weight Registry::take(Shape shape) {
    return {arenas_.parameters.take(DType::f32, shape), arenas_.gradients.take(DType::f32, shape)};
}

void Registry::add(const std::string& name, Shape global, Box box, const Weight& fused, std::int64_t row,
                   const Attributes& attributes) {
    Parameter p;
    p.name = name;
    p.global_shape = global;
    p.box = box;
    p.transposed_in_hf = attributes.transposed;
    p.global_index = next_index_++;
    p.stage = stage_;
    p.init = attributes.init;
    p.decay = attributes.decay;
    p.replicas = tp_ > 1 ? attributes.replicas : Replicas::none;
    p.tie_group = attributes.tie_group;
    const int copies = p.replicas == Replicas::kv_sum ? tp_ / static_cast<int>(model_.num_kv_heads) : tp_;
    p.counted = attributes.counted && (p.replicas == Replicas::none || tp_rank_ % copies == 0);
    p.weight = fused.value.rows(row, box.extent[0]);
    p.gradient = fused.gradient.rows(row, box.extent[0]);
    parameters_.push_back(std::move(p));
}

Weight Registry::vector(const std::string& name, std::int64_t size, Attributes attributes) {
    const Weight weight = take({size});
    add(name, {size}, {{0}, {size}}, weight, 0, attributes);
    return weight;
}

NormWeights Registry::norm(const std::string& name) {
    NormWeights norm;
    norm.weight = vector(name + ".weight", shape_.hidden, {.init = Init::ones, .replicas = Replicas::tp});
    if (gpt2())
        norm.bias = vector(name + ".bias", shape_.hidden, {.init = Init::zeros, .replicas = Replicas::tp});
    return norm;
}

void Registry::prepare(LinearWeights& linear, std::size_t first_entry) {
    const Shape shape = linear.weight.value.shape();
    if (prepared_elements_(shape[0], shape[1], storage_) == 0) return;
    linear.prepared = arenas_.prepared_weights.take(storage_, shape);
    std::int64_t row = 0;
    for (std::size_t i = first_entry; i < parameters_.size(); ++i) {
        Parameter& p = parameters_[i];
        if (p.box.extent.rank() != 2) continue;
        p.shadow = linear.prepared.rows(row, p.box.extent[0]);
        row += p.box.extent[0];
    }
    if (linear.bias.value.elements() == 0) return;
    linear.prepared_bias = arenas_.prepared_weights.take(storage_, linear.bias.value.shape());
    row = 0;
    for (std::size_t i = first_entry; i < parameters_.size(); ++i) {
        Parameter& p = parameters_[i];
        if (p.box.extent.rank() != 1) continue;
        p.shadow = linear.prepared_bias.rows(row, p.box.extent[0]);
        row += p.box.extent[0];
    }
}

EmbeddingWeights Registry::embedding() {
    next_index_ = 0;
    EmbeddingWeights embedding;
    embedding.table = take({shape_.vocab_rows, shape_.hidden});
    add(gpt2() ? "transformer.wte.weight" : "model.embed_tokens.weight", {model_.vocab_size, shape_.hidden},
        {{shape_.vocab_begin, 0}, {shape_.vocab_valid, shape_.hidden}}, embedding.table, 0,
        {.decay = true, .tie_group = model_.tie_embeddings ? 0 : -1});
    if (gpt2()) {
        embedding.positions = take({model_.max_positions, shape_.hidden});
        const Shape whole = {model_.max_positions, shape_.hidden};
        add("transformer.wpe.weight", whole, {{0, 0}, whole}, embedding.positions, 0,
            {.decay = true, .replicas = Replicas::tp});
    }
    return embedding;
}

Weight Registry::qkv(const std::string& prefix, const std::string& suffix, std::int64_t columns) {
    const std::int64_t query = shape_.heads * shape_.head_size, key = shape_.kv_heads * shape_.head_size;
    const std::int64_t all_queries = model_.num_heads * shape_.head_size;
    const std::int64_t all_keys = model_.num_kv_heads * shape_.head_size;
    const auto shaped = [&](std::int64_t rows) { return columns ? Shape{rows, columns} : Shape{rows}; };
    const auto offset = [&](std::int64_t row) { return columns ? Shape{row, 0} : Shape{row}; };
    const Weight fused = take(shaped(query + 2 * key));

    Attributes attributes{
        .init = columns ? Init::normal : Init::zeros, .decay = columns != 0, .transposed = gpt2() && columns};
    Attributes kv_attributes = attributes;
    if (model_.num_kv_heads < tp_) kv_attributes.replicas = Replicas::kv_sum;

    const std::int64_t first_query = shape_.first_head * shape_.head_size;
    const std::int64_t first_key = shape_.first_kv_head * shape_.head_size;
    if (gpt2()) {  // one global tensor: q | k | v
        const Shape global = shaped(all_queries + 2 * all_keys);
        const std::string name = prefix + "attn.c_attn." + suffix;
        add(name, global, {offset(first_query), shaped(query)}, fused, 0, attributes);
        add(name, global, {offset(all_queries + first_key), shaped(key)}, fused, query, kv_attributes);
        add(name, global, {offset(all_queries + all_keys + first_key), shaped(key)}, fused, query + key,
            kv_attributes);
    } else {
        const std::string name = prefix + "self_attn.";
        add(name + "q_proj." + suffix, shaped(all_queries), {offset(first_query), shaped(query)}, fused, 0,
            attributes);
        add(name + "k_proj." + suffix, shaped(all_keys), {offset(first_key), shaped(key)}, fused, query,
            kv_attributes);
        add(name + "v_proj." + suffix, shaped(all_keys), {offset(first_key), shaped(key)}, fused, query + key,
            kv_attributes);
    }
    return fused;
}

Weight Registry::up(const std::string& prefix, const std::string& suffix, std::int64_t columns) {
    const auto shaped = [&](std::int64_t rows) { return columns ? Shape{rows, columns} : Shape{rows}; };
    const Shape offset = columns ? Shape{shape_.first_ffn, 0} : Shape{shape_.first_ffn};
    const Box box{offset, shaped(shape_.ffn)};
    Attributes attributes{
        .init = columns ? Init::normal : Init::zeros, .decay = columns != 0, .transposed = gpt2() && columns};
    if (gpt2()) {
        const Weight weight = take(shaped(shape_.ffn));
        add(prefix + "mlp.c_fc." + suffix, shaped(model_.ffn_size), box, weight, 0, attributes);
        return weight;
    }
    const Weight fused = take(shaped(2 * shape_.ffn));
    add(prefix + "mlp.gate_proj." + suffix, shaped(model_.ffn_size), box, fused, 0, attributes);
    add(prefix + "mlp.up_proj." + suffix, shaped(model_.ffn_size), box, fused, shape_.ffn, attributes);
    return fused;
}

LinearWeights Registry::row_parallel(const std::string& name, std::int64_t inputs, std::int64_t local_inputs,
                                     std::int64_t first_input) {
    LinearWeights linear;
    const std::size_t first_entry = parameters_.size();
    linear.weight = take({shape_.hidden, local_inputs});
    add(name + ".weight", {shape_.hidden, inputs}, {{0, first_input}, {shape_.hidden, local_inputs}},
        linear.weight, 0, {.init = Init::normal_residual, .decay = true, .transposed = gpt2()});
    if (gpt2())
        linear.bias = vector(name + ".bias", shape_.hidden, {.init = Init::zeros, .replicas = Replicas::tp});
    prepare(linear, first_entry);
    return linear;
}

BlockWeights Registry::block(std::int64_t layer) {
    next_index_ = first_index_of_block(layer);
    const std::string prefix = (gpt2() ? "transformer.h." : "model.layers.") + std::to_string(layer) + ".";
    BlockWeights block;
    block.attention_norm = norm(prefix + (gpt2() ? "ln_1" : "input_layernorm"));
    std::size_t first_entry = parameters_.size();
    block.qkv.weight = qkv(prefix, "weight", shape_.hidden);
    if (gpt2() || model_.qkv_bias) block.qkv.bias = qkv(prefix, "bias", 0);
    prepare(block.qkv, first_entry);
    if (model_.qk_norm) {
        const Attributes attributes{.init = Init::ones, .replicas = Replicas::tp_sum};
        block.query_norm = vector(prefix + "self_attn.q_norm.weight", shape_.head_size, attributes);
        block.key_norm = vector(prefix + "self_attn.k_norm.weight", shape_.head_size, attributes);
    }
    block.projection = row_parallel(prefix + (gpt2() ? "attn.c_proj" : "self_attn.o_proj"),
                                    model_.num_heads * shape_.head_size, shape_.attention_width(),
                                    shape_.first_head * shape_.head_size);
    block.mlp_norm = norm(prefix + (gpt2() ? "ln_2" : "post_attention_layernorm"));
    first_entry = parameters_.size();
    block.up.weight = up(prefix, "weight", shape_.hidden);
    if (gpt2()) block.up.bias = up(prefix, "bias", 0);
    prepare(block.up, first_entry);
    block.down = row_parallel(prefix + (gpt2() ? "mlp.c_proj" : "mlp.down_proj"), model_.ffn_size, shape_.ffn,
                              shape_.first_ffn);
    ESCALIER_CHECK(next_index_ <= first_index_of_block(layer + 1), "a block has more entries than it may");
    return block;
}

HeadWeights Registry::head(const Weight* table) {
    next_index_ = first_index_of_block(model_.num_layers);
    HeadWeights head;
    head.norm = norm(gpt2() ? "transformer.ln_f" : "model.norm");
    const Shape rows = {shape_.vocab_rows, shape_.hidden};
    head.output.weight = table ? Weight{table->value, arenas_.gradients.take(DType::f32, rows)} : take(rows);
    const std::size_t first_entry = parameters_.size();
    const bool tied = model_.tie_embeddings;
    const std::string untied = "lm_head.weight";
    add(!tied    ? untied
        : gpt2() ? "transformer.wte.weight"
                 : "model.embed_tokens.weight",
        {model_.vocab_size, shape_.hidden}, {{shape_.vocab_begin, 0}, {shape_.vocab_valid, shape_.hidden}},
        head.output.weight, 0, {.decay = true, .tie_group = tied ? 0 : -1, .counted = !tied});
    prepare(head.output, first_entry);
    return head;
}

}  // namespace escalier::model
