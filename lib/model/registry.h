// Lays a stage's parameters out in the arenas and lists them.
#pragma once

#include <string>
#include <vector>

#include "device/arena.h"
#include "kernels/linear.h"
#include "model/parameter.h"
#include "model/shape.h"

namespace escalier::model {

// A weight and its main gradient; without data where the model has none (a bias of a bias-free linear).
struct Weight {
    TensorView value;
    TensorView gradient;
};

struct LinearWeights {
    Weight weight;                       // [N,K]
    Weight bias;                         // [N]
    TensorView prepared, prepared_bias;  // without data where products read `weight` and `bias` themselves

    TensorView product_bias() const { return prepared_bias.has_data() ? prepared_bias : bias.value; }
};

struct NormWeights {
    Weight weight;
    Weight bias;  // LayerNorm only
};

struct BlockWeights {
    NormWeights attention_norm;
    LinearWeights qkv;
    Weight query_norm, key_norm;  // Qwen3 only
    LinearWeights projection;
    NormWeights mlp_norm;
    LinearWeights up;  // llama: gate, then up
    LinearWeights down;
};

struct EmbeddingWeights {
    Weight table;      // [V,C], padding rows included
    Weight positions;  // gpt2 only
};

struct HeadWeights {
    NormWeights norm;
    LinearWeights output;  // [V,C]; a tied head shares the table where both live on one rank
};

// Stage `stage` of the model; layers [first_layer, last_layer).
class Registry {
 public:
    // storage: the type of activations.
    Registry(const config::ModelConfig& model, const ModelShape& shape, int tp, int tp_rank, int stage,
             device::Arenas& arenas, kernels::PreparedWeightElements& prepared_elements,
             DType storage = DType::f32);

    EmbeddingWeights embedding();
    BlockWeights block(std::int64_t layer);
    // table: the embedding's weight where a tied head lives on the embedding's rank, else nullptr.
    HeadWeights head(const Weight* table);

    const ParameterList& parameters() const { return parameters_; }

 private:
    struct Attributes {
        Init init = Init::normal;
        bool decay = false;
        Replicas replicas = Replicas::none;
        bool transposed = false;
        int tie_group = -1;
        bool counted = true;
    };

    Weight take(Shape shape);
    // Rows [row, row + box.extent[0]) of `fused` hold the box of the global tensor.
    void add(const std::string& name, Shape global, Box box, const Weight& fused, std::int64_t row,
             const Attributes& attributes);
    Weight vector(const std::string& name, std::int64_t size, Attributes attributes);
    NormWeights norm(const std::string& name);
    // The fused query, key, value rows of a weight (columns = hidden) or bias (columns = 0: a vector).
    Weight qkv(const std::string& prefix, const std::string& suffix, std::int64_t columns);
    // The first linear of the MLP; llama fuses gate and up.
    Weight up(const std::string& prefix, const std::string& suffix, std::int64_t columns);
    LinearWeights row_parallel(const std::string& name, std::int64_t inputs, std::int64_t local_inputs,
                               std::int64_t first_input);
    // Takes the prepared forms of a linear whose entries are the latest, from first_entry on, which get them
    // as their shadows.
    void prepare(LinearWeights& linear, std::size_t first_entry);
    bool gpt2() const { return model_.arch == config::Arch::gpt2; }

    config::ModelConfig model_;
    ModelShape shape_;
    int tp_, tp_rank_, stage_;
    device::Arenas& arenas_;
    kernels::PreparedWeightElements& prepared_elements_;
    DType storage_;
    int next_index_ = 0;  // of the entry that is added next
    ParameterList parameters_;
};

}  // namespace escalier::model
