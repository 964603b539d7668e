// The weights of a Hugging Face folder: model.safetensors, or model.safetensors.index.json and its shards.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "checkpoint/tensor_source.h"
#include "config/job_spec.h"

namespace escalier::checkpoint {

// Tensors under the names of the whole language model ("transformer." or "model." in front, which files may
// lack), exactly those of the model. What transformers derives (attention masks, inverse frequencies) is left
// out. A tied head is left out too: a file may hold the table under either name, or under both if they are
// equal.
class HfFolder : public TensorSource {
 public:
    // model: resolved, of the folder's config.json. Throws IoError (66) for what is missing or unreadable,
    // DataError for damage, for an index that does not fit its files and for tensors of another model.
    HfFolder(const std::string& directory, const config::ModelConfig& model);

    const std::string& path() const override { return directory_; }
    const std::map<std::string, TensorInfo>& tensors() const override { return tensors_; }
    void read_box(const std::string& name, const model::Box& box, bool transposed, float* out) const override;

 private:
    struct Place {
        const SafetensorsReader* file;
        std::string name;  // in the file
    };

    void open_index(const std::string& index);
    const SafetensorsReader& open(const std::string& file);
    void add(const SafetensorsReader& file, const std::string& stored_name);
    void resolve_tied_head();
    void check_equal(const std::string& table, const std::string& head) const;

    std::string directory_;
    config::ModelConfig model_;
    std::vector<std::unique_ptr<SafetensorsReader>> files_;
    std::map<std::string, Place> places_;
    std::map<std::string, TensorInfo> tensors_;
};

}  // namespace escalier::checkpoint
