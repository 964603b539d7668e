#include <cstring>
#include <nlohmann/json.hpp>

#include "checkpoint/narrow.h"
#include "checkpoint/safetensors.h"

namespace escalier::checkpoint {

std::string file_header(const std::vector<HeaderEntry>& tensors, Metadata metadata) {
    metadata["format"] = "pt";  // older transformers refuse a file without it
    nlohmann::json root;
    root["__metadata__"] = metadata;
    std::uint64_t begin = 0;
    for (const HeaderEntry& tensor : tensors) {
        std::uint64_t end = stored_width(tensor.dtype);
        for (const std::int64_t extent : tensor.shape) end *= static_cast<std::uint64_t>(extent);
        end += begin;
        root[tensor.name] = {
            {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
        begin = end;
    }
    std::string text = root.dump();
    text.append((8 - text.size() % 8) % 8, ' ');
    const std::uint64_t header_bytes = text.size();
    return std::string(reinterpret_cast<const char*>(&header_bytes), sizeof header_bytes) + text;
}

}  // namespace escalier::checkpoint
