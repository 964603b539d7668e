// A safetensors file of f32 tensors that is hashed and looked through for NaN and infinity while it is
// written.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/file_hash.h"
#include "checkpoint/file_layer.h"
#include "checkpoint/manifest.h"

namespace escalier::checkpoint {

// Thrown out of a write that was told to stop.
struct WriteCancelled {};

class PieceFile {
 public:
    struct Tensor {
        std::string key;
        std::vector<std::int64_t> shape;
    };

    // Writes the header; the tensors' values follow in this order. cancel: append() then throws
    // WriteCancelled.
    PieceFile(FileLayer& files, const std::string& directory, const std::string& name,
              std::vector<Tensor> tensors, const std::atomic<bool>& cancel);

    // The next tensor: rows x columns values as stored. transposed: `values` is [columns, rows].
    // Throws NumericError, naming the tensor, where a value is NaN or infinite.
    void append(const float* values, bool transposed);
    // Syncs.
    ManifestFile finish();

 private:
    void write(const void* data, std::size_t bytes);
    void write_values(const float* values, std::size_t count);

    std::unique_ptr<OutputFile> file_;
    ManifestFile result_;
    std::vector<Tensor> tensors_;
    std::size_t next_ = 0;
    const std::atomic<bool>& cancel_;
    FileHash hash_;
    std::vector<float> stored_rows_;  // where a transposed tensor is turned, a few rows at a time
};

}  // namespace escalier::checkpoint
