#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "checkpoint/hf_config.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/model_tensors.h"
#include "checkpoint/safetensors.h"
#include "config/dump.h"
#include "scratch_folder.h"
#include "targets.h"

namespace escalier::fuzz {

namespace {

config::ModelConfig smallest_model() {
    config::ModelConfig model;
    model.arch = config::Arch::llama;
    model.num_layers = 1;
    model.hidden_size = 2;
    model.num_heads = model.num_kv_heads = 1;
    model.head_dim = model.ffn_size = model.vocab_size = 2;
    model.tie_embeddings = true;
    return model;
}

Shape shape_of(const std::vector<std::int64_t>& extents) {
    return extents.size() == 1 ? Shape{extents[0]} : Shape{extents[0], extents[1]};
}

// The model's tensors in two shards: norms, and the others.
void write_shards(const std::filesystem::path& folder) {
    std::map<std::string, Shape> norms, others;
    for (const auto& [name, extents] : checkpoint::model_tensors(smallest_model()))
        (name.find("norm") == std::string::npos ? others : norms)[name] = shape_of(extents);
    for (const auto& [shard, tensors] : {std::pair{"1", norms}, {"2", others}}) {
        checkpoint::SafetensorsWriter writer(
            folder / (std::string("model-0000") + shard + "-of-00002.safetensors"), tensors, {});
        for (const auto& [name, shape] : tensors)
            writer.append(std::vector<float>(static_cast<std::size_t>(shape.elements()), 0.5f));
        writer.finish();
    }
}

}  // namespace

void hf_config(std::string_view input) {
    const std::string text(input);
    const checkpoint::HfConfig read = checkpoint::parse_hf_config(text, "config.json");
    const std::string dtype = read.dtype.empty() ? "float32" : read.dtype;
    const std::string written = checkpoint::hf_config_text(read.model, dtype, 16, text);
    const std::string model = config::dump_model(read.model);
    if (config::dump_model(checkpoint::parse_hf_config(written, "config.json").model) != model)
        throw std::logic_error("the model\n" + model + "reads back to another one:\n" + written);
}

void hf_index(std::string_view input) {
    static const ScratchFolder folder;
    static const bool written = (write_shards(folder.path()), true);
    folder.write("model.safetensors.index.json", input);
    const checkpoint::HfFolder source(folder.path(), smallest_model());
    for (const auto& [name, info] : source.tensors()) {
        const Shape extent = shape_of(info.shape);
        std::vector<float> values(static_cast<std::size_t>(extent.elements()));
        source.read_box(name, {extent.rank() == 1 ? Shape{0} : Shape{0, 0}, extent}, false, values.data());
        if (!written || values[0] != 0.5f) throw std::logic_error(name + " has another value");
    }
}

}  // namespace escalier::fuzz
