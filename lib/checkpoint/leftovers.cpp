#include "checkpoint/leftovers.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include "checkpoint/commit.h"
#include "checkpoint/run_folder.h"
#include "checkpoint/trash.h"
#include "core/error.h"

namespace escalier::checkpoint {

namespace fs = std::filesystem;

namespace {

bool is_leftover(const std::string& name) {
    if (name == std::string(latest_name) + ".tmp" || name == probe_name || name.starts_with(trash_prefix))
        return true;
    const std::string_view suffix = unfinished_suffix;
    return name.ends_with(suffix) && step_of_directory(name.substr(0, name.size() - suffix.size()));
}

bool is_whole(const std::string& directory, std::int64_t step) {
    try {
        return read_manifest(directory).run.step == step;
    } catch (const Error&) {
        return false;
    }
}

// Killed between the two renames of a save whose file system cannot exchange folders.
void give_name_back(FileLayer& files, const std::string& run_directory, const std::string& name) {
    const std::optional<std::int64_t> step = step_set_aside(name);
    if (!step) return;
    const std::string aside = run_directory + "/" + name;
    const std::string path = run_directory + "/" + step_directory_name(*step);
    if (!fs::exists(path) && is_whole(aside, *step)) files.rename(aside, path);
}

}  // namespace

void remove_leftovers(FileLayer& files, const std::string& run_directory) {
    std::vector<std::string> leftovers;
    std::error_code error;
    for (fs::directory_iterator at(run_directory, error), end; !error && at != end; at.increment(error))
        if (const std::string name = at->path().filename().string(); is_leftover(name))
            leftovers.push_back(name);
    if (leftovers.empty()) return;
    std::sort(leftovers.begin(), leftovers.end());
    for (const std::string& name : leftovers) give_name_back(files, run_directory, name);
    // Names may still be as they were before a save changed them: what is removed must not come back as
    // one of them.
    files.sync_directory(run_directory);
    for (const std::string& name : leftovers) {
        const std::string path = run_directory + "/" + name;
        const fs::file_status status = fs::symlink_status(path);
        if (fs::is_directory(status))
            remove_tree(files, path);
        else if (fs::exists(status))
            files.remove_file(path);
    }
}

}  // namespace escalier::checkpoint
