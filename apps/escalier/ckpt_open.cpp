#include "ckpt_open.h"

#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "checkpoint/hf_export.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/hf_import.h"
#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "train/model_source.h"

namespace escalier::apps {

namespace fs = std::filesystem;

namespace {

bool is_hf_folder(const std::string& path) {
    return fs::exists(path + "/" + checkpoint::hf_config_name);
}

}  // namespace

void add_ignored_keys(CLI::App& command, std::vector<std::string>& keys) {
    command.add_option("--ignore-key", keys,
                       "A key of a Hugging Face config.json that Escalier does not know and may pass over "
                       "(repeatable)");
}

void require_folder_of_keys(const std::vector<std::string>& keys, const std::vector<std::string>& paths) {
    if (keys.empty() || std::any_of(paths.begin(), paths.end(), is_hf_folder)) return;
    throw ConfigError("--ignore-key " + keys.front() + ": " + paths.back() +
                      " is no Hugging Face folder and has no config.json; leave the option out");
}

OpenedTensors open_tensors(const std::string& path, const std::set<std::string>& ignored_keys) {
    OpenedTensors opened;
    opened.path = path;
    if (fs::is_regular_file(path)) {
        opened.other = std::make_unique<checkpoint::SafetensorsReader>(path);
    } else if (is_hf_folder(path)) {
        opened.other = std::make_unique<checkpoint::HfFolder>(
            path, checkpoint::read_hf_config(path, ignored_keys).model);
    } else {
        const train::FoundCheckpoint found = train::find_checkpoint(path);
        opened.path = found.directory;
        opened.note = found.note;
        opened.reader = std::make_unique<checkpoint::CheckpointReader>(found.directory);
    }
    return opened;
}

std::string change_time(const std::string& path) {
    struct stat facts {};
    std::tm local{};
    if (stat(path.c_str(), &facts) != 0 || !localtime_r(&facts.st_mtime, &local)) return "-";
    char text[32];
    return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local)};
}

}  // namespace escalier::apps
