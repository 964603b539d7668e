#include "train/weight_metadata.h"

#include <charconv>
#include <system_error>

#include "checkpoint/weights.h"
#include "config/dump.h"
#include "config/load.h"
#include "config/validate.h"

namespace escalier::train {

namespace {

constexpr const char* tokenizer_key = "escalier_tokenizer";
constexpr const char* seq_len_key = "escalier_seq_len";

std::int64_t parse_length(const std::string& text) {
    constexpr std::int64_t longest = config::most_sequence;
    std::int64_t length = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    if (error != std::errc() || end != text.data() + text.size() || length < 1 || length > longest)
        throw ConfigError("sequence length '" + text + "' is no number from 1 to " + std::to_string(longest));
    return length;
}

}  // namespace

checkpoint::Metadata weight_metadata(const config::JobSpec& spec) {
    return {{checkpoint::model_metadata_key, config::dump_model(spec.model)},
            {tokenizer_key, spec.data.tokenizer},
            {seq_len_key, std::to_string(spec.train.seq_len)}};
}

WeightDescription described(const config::ModelConfig& model, const std::string& tokenizer,
                            std::int64_t seq_len) {
    config::JobSpec spec;
    spec.model = model;
    spec.train.seq_len = seq_len;
    spec.train.global_batch = 1;
    const config::JobSpec resolved = config::resolve(spec, 1);
    return {resolved.model, tokenizer, resolved.train.seq_len};
}

WeightDescription read_weight_description(const std::string& path) {
    const checkpoint::SafetensorsReader reader(path);
    const auto value = [&](const char* key) {
        const auto found = reader.metadata().find(key);
        if (found == reader.metadata().end())
            throw DataError(path + " has no metadata '" + key +
                            "': it is not a weight file of escalier train --save-weights");
        return found->second;
    };
    try {
        return described(config::parse_model(value(checkpoint::model_metadata_key), path),
                         value(tokenizer_key), parse_length(value(seq_len_key)));
    } catch (const ConfigError& error) {
        throw DataError(path + ": its description of the model is damaged: " + error.what());
    }
}

}  // namespace escalier::train
