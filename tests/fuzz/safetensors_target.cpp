#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "scratch_folder.h"
#include "targets.h"

namespace escalier::fuzz {

namespace {

// Every vector and matrix: whole, the last element alone, and in the other orientation.
void read_everything(const std::string& path) {
    const checkpoint::SafetensorsReader reader(path);
    for (const auto& [name, tensor] : reader.tensors()) {
        const auto& shape = tensor.shape;
        if (shape.empty() || shape.size() > 2 || std::count(shape.begin(), shape.end(), 0) > 0) continue;
        std::vector<float> values(
            static_cast<std::size_t>(shape.size() == 1 ? shape[0] : shape[0] * shape[1]));
        if (shape.size() == 1) {
            reader.read_box(name, {{0}, {shape[0]}}, false, values.data());
            reader.read_box(name, {{shape[0] - 1}, {1}}, false, values.data());
        } else {
            reader.read_box(name, {{0, 0}, {shape[0], shape[1]}}, false, values.data());
            reader.read_box(name, {{0, 0}, {shape[1], shape[0]}}, true, values.data());
            reader.read_box(name, {{shape[0] - 1, shape[1] - 1}, {1, 1}}, false, values.data());
        }
    }
}

// Where the data of a header ends if it says so in the way it should, up to 64 KiB.
std::size_t data_bytes(std::string_view header) {
    constexpr std::uint64_t most = 1 << 16;
    std::uint64_t end = 0;
    const auto json = nlohmann::json::parse(header, nullptr, false);
    if (!json.is_object()) return 0;
    for (const auto& entry : json)
        if (entry.is_object() && entry.contains("data_offsets"))
            for (const auto& offset : entry["data_offsets"])
                if (offset.is_number_unsigned()) end = std::max(end, offset.get<std::uint64_t>());
    return static_cast<std::size_t>(std::min(end, most));
}

}  // namespace

void safetensors(std::string_view input) {
    static const ScratchFolder folder;
    read_everything(folder.write("w.safetensors", input));
}

void safetensors_header(std::string_view input) {
    static const ScratchFolder folder;
    const std::uint64_t length = input.size();
    std::string file(8, '\0');
    std::memcpy(file.data(), &length, 8);
    file += input;
    file.append(data_bytes(input), '\x3f');
    read_everything(folder.write("w.safetensors", file));
}

}  // namespace escalier::fuzz
