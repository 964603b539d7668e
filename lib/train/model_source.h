// Where a trained model comes from: a weight file or a checkpoint.
#pragma once

#include <memory>
#include <string>

#include "checkpoint/reader.h"
#include "checkpoint/safetensors.h"
#include "train/weight_metadata.h"

namespace escalier::train {

struct ModelSource {
    std::string path;         // for messages
    WeightDescription about;  // model, tokenizer, length

    const checkpoint::TensorSource& weights() const;

    std::unique_ptr<checkpoint::SafetensorsReader> file;     // this one,
    std::unique_ptr<checkpoint::CheckpointReader> snapshot;  // or this one
};

// A file of train --save-weights. Throws IoError (66) or DataError (65), as the next.
ModelSource open_weight_file(const std::string& path);

struct FoundCheckpoint {
    std::string directory;  // a step folder
    std::string note;       // of a run folder: why this one, and what was odd; else empty
};

// path: a step folder, or a run folder, whose newest whole checkpoint is found. Throws IoError (66).
FoundCheckpoint find_checkpoint(const std::string& path);

// The model is that of the checkpoint's own config.yaml. The files' hashes are not looked at.
ModelSource open_checkpoint(const std::string& step_directory);

}  // namespace escalier::train
