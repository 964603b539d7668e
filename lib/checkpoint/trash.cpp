#include "checkpoint/trash.h"

#include <filesystem>

#include "checkpoint/run_folder.h"
#include "core/error.h"

namespace escalier::checkpoint {

namespace {

const std::string aside_prefix = std::string(trash_prefix) + "aside-";

}  // namespace

std::string move_to_trash(FileLayer& files, const std::string& run_directory, const std::string& name) {
    const std::string first = run_directory + "/" + trash_prefix + name;
    std::string path = first;
    for (int copy = 2; std::filesystem::exists(path); ++copy) path = first + "-" + std::to_string(copy);
    files.rename(run_directory + "/" + name, path);
    return path;
}

std::string set_aside(FileLayer& files, const std::string& run_directory, std::int64_t step) {
    const std::string name = step_directory_name(step);
    const std::string path = run_directory + "/" + aside_prefix + name;
    // One that could not be removed when it had been replaced.
    if (std::filesystem::exists(path)) move_to_trash(files, run_directory, aside_prefix + name);
    files.rename(run_directory + "/" + name, path);
    return path;
}

std::optional<std::int64_t> step_set_aside(const std::string& name) {
    if (!name.starts_with(aside_prefix)) return std::nullopt;
    return step_of_directory(name.substr(aside_prefix.size()));
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
