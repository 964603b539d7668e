#include "checkpoint/trash.h"

#include <filesystem>

#include "core/error.h"

namespace escalier::checkpoint {

std::string move_to_trash(FileLayer& files, const std::string& run_directory, const std::string& name) {
    const std::string first = run_directory + "/" + trash_prefix + name;
    std::string path = first;
    for (int copy = 2; std::filesystem::exists(path); ++copy) path = first + "-" + std::to_string(copy);
    files.rename(run_directory + "/" + name, path);
    return path;
}

std::vector<std::string> empty_trash(FileLayer& files, const std::vector<std::string>& paths) {
    std::vector<std::string> warnings;
    for (const std::string& path : paths) try {
            remove_tree(files, path);
        } catch (const IoError& error) {
            warnings.push_back(error.what());
        }
    return warnings;
}

}  // namespace escalier::checkpoint
