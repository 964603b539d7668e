// Files in the safetensors format (formats.md section 2.1): a JSON header that names every tensor, then their
// bytes.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/stored_block.h"
#include "checkpoint/tensor_source.h"
#include "core/mapped_file.h"
#include "core/tensor_view.h"

namespace escalier::checkpoint {

using Metadata = std::map<std::string, std::string>;

// A tensor's place in a file.
struct StoredTensor {
    TensorInfo info;
    std::uint64_t begin = 0;  // byte offsets into the data section
    std::uint64_t end = 0;
};

// The header of a file with `bytes`; `path` is for messages. Throws DataError that names the file and the
// fault: every rule of the format is checked, offsets against the file's size included.
struct SafetensorsHeader {
    std::map<std::string, StoredTensor> tensors;
    Metadata metadata;
    std::uint64_t data_begin = 0;  // byte offset of the data section
};
SafetensorsHeader parse_header(std::span<const char> bytes, const std::string& path);

class SafetensorsReader : public TensorSource {
 public:
    // Throws IoError if the file cannot be read, DataError if it is damaged.
    explicit SafetensorsReader(const std::string& path);

    const std::string& path() const override { return path_; }
    const std::map<std::string, TensorInfo>& tensors() const override { return tensors_; }
    const Metadata& metadata() const { return header_.metadata; }

    void read_box(const std::string& name, const model::Box& box, bool transposed, float* out) const override;
    // As read_block of checkpoint/stored_block.h, with the checks of read_box.
    void read_block(const std::string& name, const Block& block, float* out, std::int64_t row_step,
                    std::int64_t column_step) const;

 private:
    std::string path_;
    MappedFile file_;
    SafetensorsHeader header_;
    std::map<std::string, TensorInfo> tensors_;
};

// The start of a file whose tensors' data follow one after the other, the header's length included.
struct HeaderEntry {
    std::string name;
    std::vector<std::int64_t> shape;
    std::string dtype = "F32";  // or F16, BF16
};
std::string file_header(const std::vector<HeaderEntry>& tensors, Metadata metadata);

// Writes f32 tensors, one after the other in order of their names, to a temporary file beside `path` that
// takes its name only once all bytes are on the disk. A link stays: the file it points to is replaced. Throws
// IoError (write) with file and system error, also for a path that is a folder, pipe, socket or device.
class SafetensorsWriter {
 public:
    SafetensorsWriter(const std::string& path, const std::map<std::string, Shape>& tensors,
                      Metadata metadata);
    ~SafetensorsWriter();  // without finish(): the temporary file is removed
    SafetensorsWriter(const SafetensorsWriter&) = delete;
    SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

    void append(std::span<const float> values);
    void finish();

 private:
    explicit SafetensorsWriter(const std::string& path);  // opens
    void write(const void* data, std::size_t bytes);
    [[noreturn]] void fail(const std::string& what) const;

    std::string path_;    // for messages
    std::string target_;  // path_ with its links followed
    std::string temporary_;
    int descriptor_ = -1;
    std::uint64_t data_bytes_left_ = 0;
    std::uint64_t bytes_since_sync_ = 0;
};

}  // namespace escalier::checkpoint
