// One checkpoint, opened for reading: manifest, config and tensors of any box, through mapped files.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "checkpoint/manifest.h"
#include "checkpoint/tensor_source.h"

namespace escalier::checkpoint {

class CheckpointReader {
 public:
    // Throws IoError (66) when there is no such folder, DataError when the manifest is absent or damaged, or
    // a file absent or of another size. Contents of files are looked at when they are used.
    explicit CheckpointReader(const std::string& step_directory);
    ~CheckpointReader();
    CheckpointReader(const CheckpointReader&) = delete;
    CheckpointReader& operator=(const CheckpointReader&) = delete;

    const std::string& directory() const;
    const Manifest& manifest() const;
    std::string config_text() const;       // config.yaml; throws IoError (66) when absent
    std::string assets_directory() const;  // empty: none

    // Weights under their names, moments under those of the weights; all F32. Not for several threads at
    // once.
    const TensorSource& tensors(StateKind kind) const;

    // Reads a file of the manifest and throws DataError unless it has the hash that stands there.
    void verify_file(std::size_t index) const;

 private:
    class Files;
    class Tensors;
    std::unique_ptr<Files> files_;
    std::array<std::unique_ptr<Tensors>, all_state_kinds.size()> tensors_;
};

}  // namespace escalier::checkpoint
