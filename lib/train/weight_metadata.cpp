#include "train/weight_metadata.h"

#include "checkpoint/weights.h"
#include "config/dump.h"
#include "config/load.h"

namespace escalier::train {

namespace {

constexpr const char* tokenizer_key = "escalier_tokenizer";
constexpr const char* seq_len_key = "escalier_seq_len";

}  // namespace

checkpoint::Metadata weight_metadata(const config::JobSpec& spec) {
    return {{checkpoint::model_metadata_key, config::dump_model(spec.model)},
            {tokenizer_key, spec.data.tokenizer},
            {seq_len_key, std::to_string(spec.train.seq_len)}};
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
    WeightDescription out;
    out.model = config::parse_model(value(checkpoint::model_metadata_key), path);
    out.tokenizer = value(tokenizer_key);
    out.seq_len = std::stoll(value(seq_len_key));
    return out;
}

}  // namespace escalier::train
