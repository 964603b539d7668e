#include "train/resume.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <filesystem>

#include "checkpoint/run_folder.h"
#include "config/dump.h"
#include "config/load.h"
#include "core/error.h"

namespace escalier::train {

namespace fs = std::filesystem;

namespace {

std::string steps_in(const std::string& run_directory) {
    std::string steps;
    for (const checkpoint::CheckpointEntry& entry : checkpoint::list_checkpoints(run_directory))
        if (entry.fault.empty()) steps += (steps.empty() ? "" : ", ") + std::to_string(entry.step);
    return steps.empty() ? "there is no whole checkpoint in " + run_directory
                         : run_directory + " has steps " + steps;
}

// NAME or NAME-2, NAME-3, … in run.dir
bool is_own_folder(const fs::path& folder, const config::RunConfig& run) {
    std::error_code error;
    if (!fs::equivalent(folder.parent_path().empty() ? "." : folder.parent_path(), run.dir, error))
        return false;
    const std::string name = folder.filename().string();
    if (name == run.name) return true;
    return name.size() > run.name.size() + 1 && name.compare(0, run.name.size() + 1, run.name + "-") == 0 &&
           std::all_of(name.begin() + static_cast<std::ptrdiff_t>(run.name.size()) + 1, name.end(),
                       [](char c) { return c >= '0' && c <= '9'; });
}

// A folder as it was given, without a slash at the end. What leads up is followed through links, not by text.
fs::path folder_of(const std::string& asked) {
    fs::path path(asked);
    if (!path.has_filename()) path = path.parent_path();
    std::error_code error;
    if (path.filename() == "." || path.filename() == "..") return fs::canonical(path, error);
    return path;
}

void use_newest(const std::string& run_directory, const std::vector<std::string>& unusable,
                StartPoint& start) {
    const checkpoint::Choice choice = checkpoint::newest_checkpoint(run_directory, unusable);
    for (const std::string& warning : choice.warnings) start.notes.push_back("warning: " + warning);
    start.checkpoint = choice.directory;
    if (!choice.directory.empty())
        start.notes.push_back("resume    from " + choice.directory + ", " + choice.reason);
}

// Checkpoints are there, but not one that could be used: to begin anew would hide that.
void refuse_damaged(const std::string& run_directory) {
    const std::vector<checkpoint::CheckpointEntry> entries = checkpoint::list_checkpoints(run_directory);
    if (entries.empty()) return;
    throw DataError("no checkpoint in " + run_directory + " is whole; of the newest, " +
                    entries.back().directory + ": " +
                    (entries.back().fault.empty() ? "its contents are damaged." : entries.back().fault) +
                    " Move the folder away to start anew, or name another with --resume.");
}

StartPoint start_auto(const config::RunConfig& run, const std::vector<std::string>& unusable) {
    StartPoint start;
    const std::string folder = (fs::path(run.dir) / run.name).string();
    if (!fs::is_directory(folder)) {
        start.notes.push_back("resume    auto: there is no run in " + folder + " yet; this one starts it");
        return start;
    }
    start.run_directory = folder;
    use_newest(folder, unusable, start);
    if (!start.checkpoint.empty()) return start;
    refuse_damaged(folder);
    start.notes.push_back("resume    auto: " + folder +
                          " has no checkpoint yet; this run starts from initial weights there");
    return start;
}

StartPoint start_from(const std::string& asked, const config::RunConfig& run,
                      const std::vector<std::string>& unusable) {
    StartPoint start;
    const fs::path path = folder_of(asked);
    const std::optional<std::int64_t> step = checkpoint::step_of_directory(path.filename().string());
    const fs::path folder = step ? (path.has_parent_path() ? path.parent_path() : fs::path(".")) : path;
    if (!fs::is_directory(path))
        throw IoError::read("checkpoint.resume: there is no folder " + asked + "; " +
                            (fs::is_directory(folder)
                                 ? steps_in(folder.string())
                                 : "give a run folder, one of its step folders, auto or none") +
                            ".");
    if (step) {
        start.checkpoint = path.string();
        start.notes.push_back("resume    from " + start.checkpoint + ", as asked");
    } else {
        use_newest(path.string(), unusable, start);
        if (start.checkpoint.empty()) refuse_damaged(path.string());
        if (start.checkpoint.empty())
            throw IoError::read("checkpoint.resume: there is no checkpoint in " + asked +
                                "; give a run folder that has one, auto or none.");
    }
    if (is_own_folder(folder, run)) start.run_directory = folder.string();
    for (const checkpoint::CheckpointEntry& entry : checkpoint::list_checkpoints(folder.string()))
        if (step && !start.run_directory.empty() && entry.step > *step) {
            start.notes.push_back("note: " + entry.directory +
                                  " and later ones stay until this run comes to their steps");
            break;
        }
    return start;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
    return fmt::format("[{}]", fmt::join(shape, ", "));
}

bool starts_with(const std::string& text, const std::string& start) {
    return text.compare(0, start.size(), start) == 0;
}

// Keys that say nothing about what is computed.
bool is_beside_the_point(const std::string& key) {
    for (const char* start : {"version", "run.name", "run.dir", "run.max_minutes", "run.comm_timeout_s",
                              "log.", "checkpoint.", "model.preset", "data.allow_change"})
        if (starts_with(key, start)) return true;
    return false;
}

bool is_of_the_model(const std::string& key, config::Arch arch) {
    if (key == "model.dropout") return false;                                       // of training
    if (key == "model.max_positions" && arch == config::Arch::llama) return false;  // changes no tensor
    return starts_with(key, "model.");
}

struct Difference {
    std::string key, there, here;

    std::string text() const { return key + " was " + there + " and is " + here; }
};

std::vector<Difference> differences(config::JobSpec there, config::JobSpec here) {
    std::vector<Difference> found;
    const config::FieldTable a = config::table_of(there), b = config::table_of(here);
    for (std::size_t i = 0; i < a.all().size(); ++i) {
        const config::Field& field = a.all()[i];
        const std::string before = config::yaml_text(field.value), now = config::yaml_text(b.all()[i].value);
        if (before != now && !is_beside_the_point(field.path)) found.push_back({field.path, before, now});
    }
    return found;
}

}  // namespace

StartPoint choose_start(const config::JobSpec& spec, const std::vector<std::string>& unusable) {
    if (spec.checkpoint.resume == "none") return {};
    if (spec.checkpoint.resume == "auto") return start_auto(spec.run, unusable);
    return start_from(spec.checkpoint.resume, spec.run, unusable);
}

bool names_a_step(const config::JobSpec& spec) {
    return checkpoint::step_of_directory(folder_of(spec.checkpoint.resume).filename().string()).has_value();
}

void require_same_tensors(const checkpoint::CheckpointReader& reader, const checkpoint::StateList& state) {
    const auto& there = reader.tensors(checkpoint::StateKind::weight).tensors();
    for (const checkpoint::StateTensor& tensor : state) {
        const auto found = there.find(tensor.name);
        const std::vector<std::int64_t> here = checkpoint::stored_shape(tensor);
        if (found != there.end() && found->second.shape == here) continue;
        throw DataError(reader.directory() + ": tensor '" + tensor.name + "' is " +
                        (found == there.end() ? "not there" : shape_text(found->second.shape)) + ", but " +
                        shape_text(here) +
                        " in this model. A resumed run keeps its model: take the model section of " +
                        reader.directory() + "/config.yaml.");
    }
}

std::vector<std::string> compare_with_checkpoint(const checkpoint::CheckpointReader& reader,
                                                 const config::JobSpec& spec,
                                                 const std::string& dataset_fingerprint) {
    const checkpoint::RunState& run = reader.manifest().run;
    const std::string file = reader.directory() + "/config.yaml";
    config::JobSpec there;
    try {
        there = config::load({file, reader.config_text()}).spec;
    } catch (const ConfigError& error) {
        throw DataError(error.what());
    }
    const bool weights_alone = run.optimizer == "none";
    std::vector<std::string> notes;
    std::string of_data;
    for (const Difference& difference : differences(there, spec)) {
        const std::string& key = difference.key;
        if (is_of_the_model(key, spec.model.arch))
            throw DataError(reader.directory() + ": " + difference.text() +
                            ". A resumed run keeps its model: take the model section of " + file + ".");
        if (weights_alone) continue;
        if (key == "run.seed" || key == "train.seq_len" || starts_with(key, "data."))
            of_data += (of_data.empty() ? "" : ", ") + difference.text();
        notes.push_back("note: since the checkpoint, " + difference.text());
    }
    if (weights_alone) return notes;
    if (run.optimizer != spec.optimizer.name)
        throw DataError(
            reader.directory() + " has the state of " + run.optimizer + ", but optimizer.name is " +
            spec.optimizer.name +
            ". Set it to the checkpoint's, or take its weights alone by `escalier ckpt export-hf` and "
            "import-hf.");
    if (run.dataset_fingerprint == dataset_fingerprint) return notes;
    const std::string change =
        "the training samples or their order are not those of the checkpoint (fingerprint " +
        run.dataset_fingerprint + ", now " + dataset_fingerprint + "): " +
        (of_data.empty() ? "the files' contents, or train.steps with data.order: megatron, changed"
                         : of_data);
    if (!spec.data.allow_change)
        throw DataError(reader.directory() + ": " + change +
                        ". Take the old data, or set data.allow_change: true to go on with the new.");
    notes.push_back(
        fmt::format("warning: {}; going on at sample {} of the new order", change, run.consumed_samples));
    return notes;
}

}  // namespace escalier::train
