#include "ckpt_open.h"

#include <sys/stat.h>

#include <ctime>
#include <filesystem>

#include "checkpoint/hf_export.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/hf_import.h"
#include "checkpoint/safetensors.h"
#include "train/model_source.h"

namespace escalier::apps {

namespace fs = std::filesystem;

OpenedTensors open_tensors(const std::string& path) {
    OpenedTensors opened;
    opened.path = path;
    if (fs::is_regular_file(path)) {
        opened.other = std::make_unique<checkpoint::SafetensorsReader>(path);
    } else if (fs::exists(path + "/" + checkpoint::hf_config_name)) {
        opened.other = std::make_unique<checkpoint::HfFolder>(path, checkpoint::read_hf_config(path).model);
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
