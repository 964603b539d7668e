#include "checkpoint/hf_import.h"

#include <algorithm>
#include <filesystem>

#include "checkpoint/hf_config.h"
#include "checkpoint/hf_export.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/write_checkpoint.h"
#include "config/dump.h"
#include "config/validate.h"
#include "core/error.h"
#include "core/mapped_file.h"

namespace escalier::checkpoint {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t largest_config = 4 << 20;  // bytes
constexpr std::int64_t longest_sequence = 1024;   // that an import proposes, in tokens

}  // namespace

HfConfig read_hf_config(const std::string& directory, const std::set<std::string>& ignored) {
    if (!fs::is_directory(directory))
        throw IoError::read(directory + " is no folder; give the folder with config.json and the weights");
    const std::string path = directory + "/" + hf_config_name;
    const MappedFile file(path);
    if (file.size() > largest_config)
        throw DataError(path + ": " + std::to_string(file.size()) +
                        " bytes are too many for a config.json. Give the folder of a model.");
    return parse_hf_config(std::string(file.bytes().data(), file.bytes().size()), path, ignored);
}

namespace {

// What the run is to be like, as far as the weights say.
config::JobSpec spec_of(const HfConfig& config, const std::string& run_directory,
                        const std::string& tokenizer) {
    fs::path run = fs::path(run_directory).lexically_normal();
    if (!run.has_filename()) run = run.parent_path();  // a slash at the end
    config::JobSpec spec;
    spec.run.name = fs::weakly_canonical(fs::absolute(run)).filename().string();
    spec.run.dir = run.has_parent_path() ? run.parent_path().string() : ".";
    spec.model = config.model;
    spec.train.seq_len = std::min(config.max_positions, longest_sequence);
    spec.data.tokenizer = tokenizer;
    try {
        return config::resolve(spec, 1);
    } catch (const ConfigError& error) {
        throw DataError(run_directory + ": the model cannot be trained as it is: " + error.what());
    }
}

}  // namespace

std::string model_section(const config::ModelConfig& model) {
    const std::string text = config::dump_model(model);
    std::string section;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = text.find('\n', at) + 1;
        const std::string line = text.substr(at, end - at);
        if (!line.starts_with("  preset:")) section += line;
        at = end;
    }
    return section;
}

HfImportResult import_hf(const std::string& directory, const std::string& run_directory,
                         const HfImportOptions& options, FileLayer& files) {
    const HfConfig config = read_hf_config(directory, options.ignored_keys);
    const HfFolder weights(directory, config.model);
    const config::JobSpec spec = spec_of(config, run_directory, options.tokenizer);

    std::error_code error;
    if (fs::exists(run_directory) && !(fs::is_directory(run_directory) && fs::is_empty(run_directory, error)))
        throw ConfigError(
            run_directory +
            " is there and not empty; an import starts a run folder of its own. Give a new name.");
    const bool made = !fs::exists(run_directory);
    make_directories(files, run_directory);

    HfImportResult result;
    SaveFacts facts;
    facts.run.seed = spec.run.seed;
    facts.run.tool_version = options.tool_version;
    facts.run.schedule = spec.pipeline.schedule;
    facts.run.optimizer = "none";
    facts.config_text = config::dump(spec);
    for (const std::string& name : hf_asset_names())
        if (fs::is_regular_file(directory + "/" + name)) {
            result.assets.push_back(name);
        }
    facts.assets_directory = directory;
    facts.asset_names = result.assets;
    try {
        result.step_directory = write_checkpoint(run_directory, weights, facts, files);
        write_file(files, run_directory + "/model.yaml", model_section(spec.model));
    } catch (const std::exception&) {
        if (made) fs::remove(run_directory, error);  // where nothing is in it
        throw;
    }
    result.model = spec.model;
    result.seq_len = spec.train.seq_len;
    result.max_positions = config.max_positions;
    result.tensors = weights.tensors().size();
    result.warnings = config.warnings;
    return result;
}

}  // namespace escalier::checkpoint
