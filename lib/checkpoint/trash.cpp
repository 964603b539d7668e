#include "checkpoint/trash.h"

#include <filesystem>

namespace escalier::checkpoint {

std::string move_to_trash(FileLayer& files, const std::string& run_directory, const std::string& name) {
    const std::string first = run_directory + "/" + trash_prefix + name;
    std::string path = first;
    for (int copy = 2; std::filesystem::exists(path); ++copy) path = first + "-" + std::to_string(copy);
    files.rename(run_directory + "/" + name, path);
    return path;
}

}  // namespace escalier::checkpoint
