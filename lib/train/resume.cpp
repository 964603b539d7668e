#include "train/resume.h"

#include <spdlog/fmt/fmt.h>

#include "config/dump.h"
#include "config/load.h"
#include "core/error.h"

namespace escalier::train {

namespace {

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

// Megatron's order is made for a whole run and ends with it; batches smaller than before the checkpoint would
// run past its end.
void require_samples_to_the_end(const checkpoint::CheckpointReader& reader, const config::JobSpec& spec) {
    const checkpoint::RunState& run = reader.manifest().run;
    const std::int64_t batch = spec.train.global_batch, planned = spec.train.steps * batch;
    const std::int64_t end = run.consumed_samples + (spec.train.steps - run.step) * batch;
    if (spec.data.order != "megatron" || run.step >= spec.train.steps || end <= planned) return;
    throw DataError(fmt::format(
        "{}: data.order: megatron is made for {} samples, train.steps x train.global_batch; from sample {} "
        "on, {} more steps of train.global_batch {} would end at {}. Keep the checkpoint's "
        "train.global_batch, or set data.order: native and data.allow_change: true.",
        reader.directory(), planned, run.consumed_samples, spec.train.steps - run.step, batch, end));
}

}  // namespace

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
    require_samples_to_the_end(reader, spec);
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
