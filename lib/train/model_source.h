// Where a trained model comes from: a weight file.
#pragma once

#include <memory>
#include <string>

#include "checkpoint/safetensors.h"
#include "train/weight_metadata.h"

namespace escalier::train {

struct ModelSource {
    std::string path;         // for messages
    WeightDescription about;  // model, tokenizer, length

    std::unique_ptr<checkpoint::SafetensorsReader> weights;
};

// A file of train --save-weights. Throws IoError (66) or DataError (65).
ModelSource open_weight_file(const std::string& path);

}  // namespace escalier::train
