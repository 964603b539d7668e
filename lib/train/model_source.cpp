#include "train/model_source.h"

#include <filesystem>

#include "checkpoint/run_folder.h"
#include "config/load.h"
#include "core/error.h"

namespace escalier::train {

namespace {

namespace fs = std::filesystem;

bool is_step_directory(const std::string& path) {
    return fs::exists(fs::path(path) / checkpoint::manifest_name) ||
           checkpoint::step_of_directory(fs::weakly_canonical(path).filename().string());
}

}  // namespace

const checkpoint::TensorSource& ModelSource::weights() const {
    if (file) return *file;
    return snapshot->tensors(checkpoint::StateKind::weight);
}

ModelSource open_weight_file(const std::string& path) {
    ModelSource source;
    source.path = path;
    source.about = read_weight_description(path);
    source.file = std::make_unique<checkpoint::SafetensorsReader>(path);
    return source;
}

FoundCheckpoint find_checkpoint(const std::string& path) {
    if (is_step_directory(path)) return {path, ""};
    if (!fs::is_directory(path))
        throw IoError::read(path + " is no folder; name a run folder or one of its step folders");
    const checkpoint::Choice choice = checkpoint::newest_checkpoint(path);
    if (choice.directory.empty())
        throw IoError::read(path + " holds no whole checkpoint (step_NNNNNNNN); `escalier ckpt ls " + path +
                            "` says what is there");
    FoundCheckpoint found{choice.directory, choice.directory + ", " + choice.reason};
    for (const std::string& warning : choice.warnings) found.note += "; " + warning;
    if (!choice.note.empty()) found.note += "; " + choice.note;
    return found;
}

ModelSource open_checkpoint(const std::string& step_directory) {
    ModelSource source;
    source.path = step_directory;
    source.snapshot = std::make_unique<checkpoint::CheckpointReader>(source.path);
    const std::string config = source.path + "/" + checkpoint::config_name;
    try {
        const config::JobSpec spec = config::load({config, source.snapshot->config_text()}, {}, {}).spec;
        source.about = described(spec.model, spec.data.tokenizer, spec.train.seq_len);
    } catch (const ConfigError& error) {
        throw DataError(config + " describes no model: " + error.what());
    }
    return source;
}

}  // namespace escalier::train
