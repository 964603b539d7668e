#include "model/registry.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "config/model_facts.h"
#include "config/validate.h"
#include "core/rng.h"
#include "kernels/ops.h"

namespace escalier::model {
namespace {

config::ModelConfig preset(const std::string& name) {
    return config::load_resolved(
               {"test", "version: 1\nmodel: {preset: " + name + "}\ntrain: {seq_len: 64, steps: 1}\n"}, {}, 1)
        .spec.model;
}

// All entries of one tensor rank, with measuring arenas: nothing is allocated whatever the model's size.
ParameterList entries(const config::ModelConfig& model, int tp, int tp_rank, bool head_alone) {
    device::Arenas arenas = device::Arenas::measuring();
    const ModelShape shape = shape_of(model, 1, 64, tp, tp_rank);
    Registry registry(model, shape, tp, tp_rank, 0, arenas, kernels::cpu_ops().prepared_weight_elements);
    const EmbeddingWeights embedding = registry.embedding();
    for (std::int64_t layer = 0; layer < model.num_layers; ++layer) registry.block(layer);
    registry.head(model.tie_embeddings && !head_alone ? &embedding.table : nullptr);
    return registry.parameters();
}

std::int64_t elements(const Box& box) {
    return box.extent.elements();
}

TEST(Registry, CountedElementsAreTheModelsParametersOnEveryTensorSize) {
    for (const char* name : {"tiny", "small", "gpt2-124m", "gpt2-1558m", "llama3.2-1b", "llama3.1-405b",
                             "qwen2.5-0.5b", "qwen3-0.6b"}) {
        const config::ModelConfig model = preset(name);
        for (int tp : {1, 2, 4, 8, 16}) {
            const bool heads_fit = model.num_heads % tp == 0 && model.ffn_size % tp == 0 &&
                                   (model.num_kv_heads % tp == 0 || tp % model.num_kv_heads == 0);
            if (!heads_fit) continue;
            std::int64_t count = 0;
            for (int rank = 0; rank < tp; ++rank)
                for (const Parameter& p : entries(model, tp, rank, true))
                    if (p.counted) count += elements(p.box);
            EXPECT_EQ(count, config::parameter_count(model)) << name << ", tp " << tp;
        }
    }
}

TEST(Registry, BoxesTileEveryGlobalTensorExactlyOnce) {
    config::ModelConfig model = preset("qwen3-0.6b");
    model.num_layers = 2;
    const int tp = 16;  // twice the key/value heads: copies
    std::map<std::string, std::int64_t> covered;
    std::map<std::string, Shape> shapes;
    for (int rank = 0; rank < tp; ++rank)
        for (const Parameter& p : entries(model, tp, rank, false)) {
            shapes[p.name] = p.global_shape;
            if (p.counted) covered[p.name] += elements(p.box);
            for (int axis = 0; axis < p.global_shape.rank(); ++axis)
                EXPECT_LE(p.box.offset[axis] + p.box.extent[axis], p.global_shape[axis]) << p.name;
        }
    for (const auto& [name, shape] : shapes) EXPECT_EQ(covered[name], shape.elements()) << name;
}

TEST(Registry, GlobalIndicesAreDistinctAndTheSameOnEveryTensorRank) {
    const config::ModelConfig model = preset("qwen2.5-0.5b");
    const ParameterList first = entries(model, 2, 0, false), second = entries(model, 2, 1, false);
    ASSERT_EQ(first.size(), second.size());
    std::set<int> indices;
    for (std::size_t i = 0; i < first.size(); ++i) {
        EXPECT_EQ(first[i].global_index, second[i].global_index);
        EXPECT_EQ(first[i].name, second[i].name);
        EXPECT_TRUE(indices.insert(first[i].global_index).second) << first[i].name;
        EXPECT_LT(first[i].global_index, count_global_entries(model.num_layers));
    }
}

TEST(Registry, DecayIsForMatricesOnly) {
    for (const char* name : {"small", "qwen3-0.6b"})
        for (const Parameter& p : entries(preset(name), 1, 0, false))
            EXPECT_EQ(p.decay, p.global_shape.rank() == 2) << p.name;
}

TEST(Registry, BillionsOfElementsAreCountedIn64Bits) {
    device::Arenas arenas = device::Arenas::measuring();
    const config::ModelConfig model = preset("llama3.1-405b");
    Registry registry(model, shape_of(model, 1, 64, 1, 0), 1, 0, 0, arenas,
                      kernels::cpu_ops().prepared_weight_elements);
    for (std::int64_t layer = 0; layer < model.num_layers; ++layer) registry.block(layer);
    EXPECT_GT(arenas.parameters.used(), std::size_t{4} * 400'000'000'000);
}

// Real memory for the initial weights.
struct Initialized {
    config::ModelConfig model;
    std::vector<std::vector<float>> values;
    ParameterList parameters;

    Initialized(const config::ModelConfig& config, int tp, int rank) : model(config) {
        parameters = entries(config, tp, rank, false);
        ComputePool pool(2);
        for (Parameter& p : parameters) {
            values.emplace_back(static_cast<std::size_t>(elements(p.box)));
            p.weight = TensorView(values.back().data(), DType::f32, p.box.extent);
        }
        initialize(parameters, 1234, model.num_layers, pool, *device::make_cpu_device());
    }
};

TEST(Initialize, ShardsAreSlicesOfTheWholeAndLayersDiffer) {
    config::ModelConfig model = preset("tiny");
    const Initialized whole(model, 1, 0);
    std::map<std::string, std::vector<float>> tensors;
    for (const Parameter& p : whole.parameters) {
        std::vector<float>& tensor = tensors[p.name];
        tensor.resize(static_cast<std::size_t>(p.global_shape.elements()));
        const std::int64_t columns = p.global_shape.rank() == 2 ? p.global_shape[1] : 1;
        std::copy_n(p.weight.as<float>(), p.weight.elements(), tensor.begin() + p.box.offset[0] * columns);
    }
    for (int rank = 0; rank < 2; ++rank) {
        const Initialized shard(model, 2, rank);
        for (const Parameter& p : shard.parameters) {
            const bool matrix = p.global_shape.rank() == 2;
            const std::int64_t columns = matrix ? p.box.extent[1] : 1,
                               global_columns = matrix ? p.global_shape[1] : 1;
            for (std::int64_t i = 0; i < p.weight.elements(); ++i) {
                const std::int64_t row = p.box.offset[0] + i / columns;
                const std::int64_t column = (matrix ? p.box.offset[1] : 0) + i % columns;
                ASSERT_EQ(p.weight.as<float>()[i],
                          tensors[p.name][static_cast<std::size_t>(row * global_columns + column)])
                    << p.name;
            }
        }
    }
    std::set<std::vector<float>> first_rows;  // of the matrices: no two layers start alike
    std::size_t matrices = 0;
    for (const auto& [name, tensor] : tensors)
        if (tensor.size() > 1000) {
            ++matrices;
            first_rows.emplace(tensor.begin(), tensor.begin() + 32);
        }
    EXPECT_EQ(first_rows.size(), matrices);
}

}  // namespace
}  // namespace escalier::model
