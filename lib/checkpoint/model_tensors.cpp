#include "checkpoint/model_tensors.h"

#include "core/error.h"
#include "device/arena.h"
#include "model/registry.h"

namespace escalier::checkpoint {

namespace {

std::int64_t no_prepared_elements(std::int64_t, std::int64_t, DType) {
    return 0;
}

}  // namespace

// The registry of the whole model on one rank, on arenas that only count.
std::map<std::string, std::vector<std::int64_t>> model_tensors(const config::ModelConfig& model) {
    device::Arenas arenas = device::Arenas::measuring();
    model::Registry registry(model, model::shape_of(model, 1, 1, 1, 0), 1, 0, 0, arenas,
                             no_prepared_elements);
    registry.embedding();
    for (std::int64_t layer = 0; layer < model.num_layers; ++layer) registry.block(layer);
    registry.head(nullptr);
    std::map<std::string, std::vector<std::int64_t>> tensors;
    for (const model::Parameter& parameter : registry.parameters()) {
        const Shape& shape = parameter.global_shape;
        std::vector<std::int64_t> stored;
        for (int axis = 0; axis < shape.rank(); ++axis)
            stored.push_back(shape[parameter.transposed_in_hf ? shape.rank() - 1 - axis : axis]);
        tensors[parameter.name] = std::move(stored);
    }
    return tensors;
}

std::string embedding_table_name(config::Arch arch) {
    return arch == config::Arch::gpt2 ? "transformer.wte.weight" : "model.embed_tokens.weight";
}

void check_is_model(const TensorSource& source, const config::ModelConfig& model) {
    const auto expected = model_tensors(model);
    for (const auto& [name, shape] : expected) {
        const auto found = source.tensors().find(name);
        const TensorInfo wanted{"", shape};
        if (found == source.tensors().end())
            throw DataError(source.path() + ": tensor '" + name + "'" + wanted.text() +
                            " of the model is missing. The weights must be those of the config.");
        const TensorInfo& info = found->second;
        if (info.shape != shape)
            throw DataError(source.path() + ": tensor '" + name + "' is " + info.text() + ", but" +
                            wanted.text() + " by the config. One of the two is of another model.");
        if (info.dtype != "F32" && info.dtype != "F16" && info.dtype != "BF16")
            throw DataError(source.path() + ": tensor '" + name + "' is " + info.text() +
                            "; weights are read from F32, F16 or BF16. Convert the file.");
    }
    for (const auto& [name, info] : source.tensors())
        if (!expected.contains(name))
            throw DataError(source.path() + ": tensor '" + name_text(name) + "' " + info.text() +
                            " has no place in the model of the config. One of the two is of another model.");
}

}  // namespace escalier::checkpoint
