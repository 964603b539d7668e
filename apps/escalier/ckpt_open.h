// What `escalier ckpt` looks at: checkpoints, and other files of weights.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/reader.h"
#include "checkpoint/tensor_source.h"

namespace escalier::apps {

struct OpenedTensors {
    std::string path;                                      // a step folder, Hugging Face folder or file
    std::string note;                                      // how it was found; may be empty
    std::unique_ptr<checkpoint::CheckpointReader> reader;  // of a checkpoint,
    std::unique_ptr<checkpoint::TensorSource> other;       // or of what is none

    const checkpoint::TensorSource& weights() const {
        return reader ? reader->tensors(checkpoint::StateKind::weight) : *other;
    }
};

// path: a run folder (its newest whole checkpoint), a step folder, a Hugging Face folder (it has a
// config.json) or a safetensors file. ignored_keys: of config.json. Throws IoError (66) or DataError (65). No
// hash is looked at.
OpenedTensors open_tensors(const std::string& path, const std::set<std::string>& ignored_keys);

// --ignore-key, as ckpt import-hf has it.
void add_ignored_keys(CLI::App& command, std::vector<std::string>& keys);

// Throws ConfigError where keys are to be ignored and none of the paths is a Hugging Face folder.
void require_folder_of_keys(const std::vector<std::string>& keys, const std::vector<std::string>& paths);

// "2026-11-30 14:05:33", local time, of the last change of a file; "-" where there is none.
std::string change_time(const std::string& path);

}  // namespace escalier::apps
