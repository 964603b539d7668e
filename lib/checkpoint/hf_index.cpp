#include "checkpoint/hf_index.h"

#include "checkpoint/strict_json.h"
#include "checkpoint/tensor_source.h"
#include "core/error.h"
#include "core/text.h"

namespace escalier::checkpoint {

std::map<std::string, std::string> parse_hf_index(std::string_view text, const std::string& path) {
    constexpr std::size_t largest = 64 << 20;  // bytes; that of 405 billion parameters takes 0.1 MiB
    const auto damaged = [&](const std::string& fault) {
        return DataError(path + ": " + fault + ". Fetch or write the file anew.");
    };
    if (text.size() > largest)
        throw damaged(std::to_string(text.size()) + " bytes are too many for an index");
    nlohmann::json root;
    try {
        root = parse_strict_json(text);
    } catch (const JsonFault& fault) {
        throw damaged(std::string("the text ") + fault.what());
    }
    if (!root.is_object() || !root.contains("weight_map") || !root["weight_map"].is_object())
        throw damaged("the map 'weight_map' is missing");
    std::map<std::string, std::string> files;
    for (const auto& [name, value] : root["weight_map"].items()) {
        const std::string file = value.is_string() ? value.get<std::string>() : "";
        const bool plain = file.find('/') == std::string::npos && file.find('\0') == std::string::npos &&
                           file.ends_with(".safetensors");
        if (!plain)
            throw damaged("tensor '" + name_text(name) + "' is said to be in " + shortened(value.dump()) +
                          ", which is no name of a .safetensors file beside the index");
        files[name] = file;
    }
    return files;
}

}  // namespace escalier::checkpoint
