#include "checkpoint/run_folder.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <system_error>

#include "checkpoint/read_blocks.h"
#include "core/error.h"
#include "core/text.h"

namespace escalier::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view step_prefix = "step_";
constexpr std::size_t step_digits = 8;

// Nothing when there is no such file. Throws IoError when it cannot be read.
std::optional<std::string> content(const std::string& path) {
    std::error_code error;
    if (!fs::is_regular_file(path, error)) return std::nullopt;
    std::string text;
    read_blocks(path, [&](const char* data, std::size_t bytes) { text.append(data, bytes); });
    return text;
}

std::string fault_of(const std::string& directory) {
    try {
        read_manifest(directory);
        return "";
    } catch (const std::exception& error) {  // whatever is wrong with it, the others may be sound
        return error.what();
    }
}

// Where a whole one of a later step than `latest` names lies there too.
std::string note_of_later(const std::vector<CheckpointEntry>& entries, const CheckpointEntry& named,
                          const std::string& latest) {
    const auto later = std::find_if(entries.rbegin(), entries.rend(),
                                    [](const CheckpointEntry& entry) { return entry.fault.empty(); });
    if (later == entries.rend() || later->step <= named.step) return "";
    return later->directory + " is whole and of a later step than " + latest +
           " names: a run went back to before it, or stopped just before naming it. Name " +
           later->directory + " itself to take it.";
}

}  // namespace

Manifest read_manifest(const std::string& step_directory) {
    std::error_code error;
    if (!fs::is_directory(step_directory, error))
        throw IoError::read(step_directory + ": there is no such checkpoint folder");
    const std::string path = step_directory + "/" + manifest_name;
    const std::optional<std::string> text = content(path);
    if (!text)
        throw DataError(path + ": is not there, so that " + step_directory +
                        " is no whole checkpoint: use another one.");
    Manifest manifest = parse_manifest(*text, path);
    fs::path folder(step_directory);
    if (!folder.has_filename()) folder = folder.parent_path();  // a slash at the end
    if (const auto step = step_of_directory(folder.filename().string()); step && *step != manifest.run.step)
        throw DataError(step_directory + ": its manifest is of step " + std::to_string(manifest.run.step) +
                        ", so that the folder's name is not its own: give it back its name, " +
                        step_directory_name(manifest.run.step) + ".");
    for (const ManifestFile& file : manifest.files) {
        const std::string name = step_directory + "/" + file.name;
        const fs::file_type type = fs::status(name, error).type();
        if (error && type != fs::file_type::not_found)
            throw IoError::read(name + ": cannot be looked at: " + error.message());
        const std::uintmax_t bytes = type == fs::file_type::regular ? fs::file_size(name, error) : 0;
        if (type != fs::file_type::regular || bytes != file.bytes)
            throw DataError(name + ": " +
                            (type == fs::file_type::regular ? "has " + std::to_string(bytes) + " bytes, but "
                                                            : std::string("is missing; it should have ")) +
                            std::to_string(file.bytes) +
                            " by the manifest. The checkpoint is damaged: use another one.");
    }
    return manifest;
}

std::string step_directory_name(std::int64_t step) {
    char name[32];
    std::snprintf(name, sizeof name, "step_%08lld", static_cast<long long>(step));
    return name;
}

std::optional<std::int64_t> step_of_directory(const std::string& name) {
    if (name.size() != step_prefix.size() + step_digits || !name.starts_with(step_prefix))
        return std::nullopt;
    std::int64_t step = 0;
    for (const char c : name.substr(step_prefix.size())) {
        if (c < '0' || c > '9') return std::nullopt;
        step = 10 * step + (c - '0');
    }
    return step;
}

std::vector<CheckpointEntry> list_checkpoints(const std::string& run_directory) {
    std::vector<CheckpointEntry> entries;
    std::error_code error;
    for (fs::directory_iterator at(run_directory, error), end; !error && at != end; at.increment(error)) {
        const std::string name = at->path().filename().string();
        const std::optional<std::int64_t> step = step_of_directory(name);
        if (step) entries.push_back({run_directory + "/" + name, *step, ""});
    }
    if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory)
        throw IoError::read(run_directory + ": cannot be listed: " + error.message());
    std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
    for (CheckpointEntry& entry : entries) entry.fault = fault_of(entry.directory);
    // What the run let go since the folder was listed is no damage.
    std::erase_if(entries, [](const CheckpointEntry& entry) {
        std::error_code failed;
        return !entry.fault.empty() &&
               fs::symlink_status(entry.directory, failed).type() == fs::file_type::not_found;
    });
    return entries;
}

Choice newest_checkpoint(const std::string& run_directory, const std::vector<std::string>& unusable) {
    Choice choice;
    const std::string latest = run_directory + "/" + latest_name;
    const auto warn = [&](const std::string& warning) {
        if (std::find(choice.warnings.begin(), choice.warnings.end(), warning) == choice.warnings.end())
            choice.warnings.push_back(warning);
    };
    std::optional<std::string> name;
    try {
        name = content(latest);
    } catch (const IoError& unreadable) {
        warn(unreadable.what());
    }
    while (name && !name->empty() && name->back() == '\n') name->pop_back();
    std::vector<CheckpointEntry> entries = list_checkpoints(run_directory);
    std::erase_if(entries, [&](const CheckpointEntry& entry) {
        return std::find(unusable.begin(), unusable.end(), entry.directory) != unusable.end();
    });
    if (name) {
        const auto named = std::find_if(entries.begin(), entries.end(), [&](const CheckpointEntry& entry) {
            return entry.directory == run_directory + "/" + *name;
        });
        if (named != entries.end() && named->fault.empty()) {
            choice.directory = named->directory;
            choice.reason = "named by " + latest;
            choice.note = note_of_later(entries, *named, latest);
            return choice;
        }
        if (named != entries.end())
            warn(named->fault);
        else if (std::find(unusable.begin(), unusable.end(), run_directory + "/" + *name) == unusable.end())
            warn(latest + " names '" + shortened(*name) + "', which is not there");
    }
    const std::int64_t all = std::numeric_limits<std::int64_t>::max();
    const std::int64_t own = name ? step_of_directory(*name).value_or(all) : all;
    std::stable_partition(entries.begin(), entries.end(),
                          [&](const CheckpointEntry& entry) { return entry.step > own; });
    for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
        if (entry->fault.empty()) {
            choice.directory = entry->directory;
            choice.reason = "the newest whole one";
            std::error_code error;
            if (!fs::exists(latest, error)) choice.reason += ", for there is no " + latest;
            return choice;
        }
        warn(entry->fault);
    }
    choice.reason = "there is no whole checkpoint in " + run_directory;
    return choice;
}

}  // namespace escalier::checkpoint
