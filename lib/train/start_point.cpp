#include "train/start_point.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "checkpoint/run_folder.h"
#include "config/load.h"
#include "core/error.h"

namespace escalier::train {

namespace fs = std::filesystem;

namespace {

bool is_folder(const fs::path& path) {
    std::error_code error;
    return fs::is_directory(path, error);
}

std::string steps_in(const std::string& run_directory) {
    std::string steps;
    for (const checkpoint::CheckpointEntry& entry : checkpoint::list_checkpoints(run_directory))
        if (entry.fault.empty()) steps += (steps.empty() ? "" : ", ") + std::to_string(entry.step);
    return steps.empty() ? "there is no whole checkpoint in " + run_directory
                         : run_directory + " has steps " + steps;
}

// The run.name that a run's folder was made for; nothing where its config.yaml does not say.
std::optional<std::string> owner_of(const fs::path& folder) {
    try {
        config::JobFile file = config::read_job_file((folder / "config.yaml").string());
        file.path.clear();  // no name is derived from it
        config::Problems problems;
        const std::string name =
            config::load(file, {}, config::process_environment(), problems).spec.run.name;
        if (!name.empty() && !problems.doubted("run.name")) return name;
    } catch (const Error&) {
        // There is none, or none that can be read.
    }
    return std::nullopt;
}

// NAME-2, NAME-3, …
bool is_numbered(const std::string& folder_name, const std::string& name) {
    if (!folder_name.starts_with(name + "-")) return false;
    const std::string number = folder_name.substr(name.size() + 1);
    return !number.empty() &&
           std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_own_folder(const fs::path& folder, const config::RunConfig& run) {
    std::error_code error;
    if (!fs::equivalent(folder.parent_path().empty() ? "." : folder.parent_path(), run.dir, error))
        return false;
    const std::string name = folder.filename().string();
    return (name == run.name || is_numbered(name, run.name)) &&
           owner_of(folder).value_or(run.name) == run.name;
}

// A folder as it was given, without a slash at the end. What leads up is followed through links, not by text.
fs::path folder_of(const std::string& asked) {
    fs::path path(asked);
    if (!path.has_filename()) path = path.parent_path();
    std::error_code error;
    if (path.filename() == "." || path.filename() == "..") return fs::canonical(path, error);
    return path;
}

fs::path run_folder_of(const fs::path& step_folder) {
    return step_folder.has_parent_path() ? step_folder.parent_path() : fs::path(".");
}

void use_newest(const std::string& run_directory, const std::vector<Damaged>& damaged, StartPoint& start) {
    std::vector<std::string> unusable;
    for (const Damaged& each : damaged) unusable.push_back(each.directory);
    const checkpoint::Choice choice = checkpoint::newest_checkpoint(run_directory, unusable);
    for (const std::string& warning : choice.warnings) start.notes.push_back("warning: " + warning);
    if (!choice.note.empty()) start.notes.push_back("note: " + choice.note);
    start.checkpoint = choice.directory;
    if (!choice.directory.empty())
        start.notes.push_back("resume    from " + choice.directory + ", " + choice.reason);
}

// Checkpoints are there, but not one that could be used: to begin anew would hide that.
void refuse_damaged(const std::string& run_directory, const std::vector<Damaged>& damaged) {
    constexpr int most_reasons = 3;  // of the newest
    std::string reasons;
    int found = 0;
    const std::vector<checkpoint::CheckpointEntry> entries = checkpoint::list_checkpoints(run_directory);
    for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry, ++found) {
        std::string reason = entry->fault;
        for (const Damaged& each : damaged)
            if (each.directory == entry->directory) reason = each.reason;
        if (found < most_reasons) reasons += "\n  " + reason;
    }
    if (found == 0) return;
    if (found > most_reasons) reasons += "\n  and " + std::to_string(found - most_reasons) + " older ones";
    throw DataError("no checkpoint in " + run_directory + " is whole:" + reasons +
                    "\nMove the folder away to start anew, or name another with --resume.");
}

// When a checkpoint was written; long ago where there is none.
fs::file_time_type written(const std::string& step_directory) {
    std::error_code error;
    const fs::file_time_type time =
        fs::last_write_time(step_directory + "/" + checkpoint::manifest_name, error);
    return step_directory.empty() || error ? fs::file_time_type::min() : time;
}

// Runs of the same job that a fresh start put beside the first one, which alone auto looks at.
void note_newer_runs(const config::RunConfig& run, StartPoint& start) {
    const fs::file_time_type own =
        written(checkpoint::newest_checkpoint((fs::path(run.dir) / run.name).string()).directory);
    std::error_code error;
    for (fs::directory_iterator at(run.dir, error), end; !error && at != end; at.increment(error)) {
        const fs::path folder = fs::path(run.dir) / at->path().filename();
        if (!is_numbered(folder.filename().string(), run.name) || !is_own_folder(folder, run)) continue;
        std::string newest;
        try {
            newest = checkpoint::newest_checkpoint(folder.string()).directory;
        } catch (const Error&) {
            continue;  // another user's, perhaps
        }
        if (!newest.empty() && written(newest) > own)
            start.notes.push_back("note: " + newest + ", of a later start of this job, is newer; --resume " +
                                  folder.string() + " goes on from that one");
    }
}

StartPoint start_from(const std::string& asked, const config::RunConfig& run,
                      const std::vector<Damaged>& damaged) {
    StartPoint start;
    const fs::path path = folder_of(asked);
    const std::optional<std::int64_t> step = checkpoint::step_of_directory(path.filename().string());
    const fs::path folder = step ? run_folder_of(path) : path;
    if (!is_folder(path))
        throw IoError::read("checkpoint.resume: there is no folder " + asked + "; " +
                            (is_folder(folder) ? steps_in(folder.string())
                                               : "give a run folder, one of its step folders, auto or none") +
                            ".");
    if (step) {
        start.checkpoint = path.string();
        for (const Damaged& each : damaged)
            if (each.directory == start.checkpoint) throw DataError(each.reason);
        start.notes.push_back("resume    from " + start.checkpoint + ", as asked");
    } else {
        use_newest(path.string(), damaged, start);
        if (start.checkpoint.empty()) refuse_damaged(path.string(), damaged);
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

// The checkpoint that the last start in this folder took, as its run.json says; empty: none.
std::string recorded_origin(const std::string& run_directory) {
    const std::string path = run_directory + "/run.json";
    std::ifstream in(path, std::ios::binary);
    if (!in) return "";  // it did not come so far as to train
    const nlohmann::json facts = nlohmann::json::parse(std::string(std::istreambuf_iterator<char>(in), {}),
                                                       nullptr, /*allow_exceptions=*/false);
    if (!facts.is_object())
        throw DataError(path +
                        " is damaged, and nothing else says what this run began from. Name a checkpoint "
                        "with --resume, or move the folder away to start anew.");
    const auto origin = facts.find("resumed_from");
    return origin != facts.end() && origin->is_string() ? origin->get<std::string>() : "";
}

// In a folder without a checkpoint.
StartPoint start_as_before(const std::string& folder, const std::vector<Damaged>& damaged) {
    StartPoint start;
    start.run_directory = folder;
    start.checkpoint = recorded_origin(folder);
    const std::string none_yet = "auto: " + folder + " has no checkpoint yet; this run starts from ";
    if (start.checkpoint.empty()) {
        start.notes.push_back("resume    " + none_yet + "initial weights there");
        return start;
    }
    for (const Damaged& each : damaged)
        if (each.directory == start.checkpoint) throw DataError(each.reason);
    if (!is_folder(start.checkpoint))
        throw IoError::read("--resume auto: " + folder + " has no checkpoint, and " + start.checkpoint +
                            ", which the run began from (" + folder +
                            "/run.json), is not there. Bring it back, name another with --resume, or move " +
                            folder + " away to start anew.");
    start.notes.push_back("resume    " + none_yet + start.checkpoint + " again");
    return start;
}

StartPoint start_auto(const config::JobSpec& spec, const std::vector<Damaged>& damaged) {
    const bool has_origin = spec.checkpoint.resume != "auto";
    const std::string folder = (fs::path(spec.run.dir) / spec.run.name).string();
    const bool is_there = is_folder(folder);
    if (is_there) {
        if (const std::string owner = owner_of(folder).value_or(spec.run.name); owner != spec.run.name)
            throw DataError("--resume auto: " + folder + " is the folder of another job, whose run.name is " +
                            owner + " (" + folder + "/config.yaml), and run.name here is " + spec.run.name +
                            ". Take another run.name; where the folder was only renamed, set run.name in its "
                            "config.yaml.");
        StartPoint start;
        start.run_directory = folder;
        use_newest(folder, damaged, start);
        if (!start.checkpoint.empty()) {
            if (has_origin)
                start.notes.push_back("note: checkpoint.resume, " + spec.checkpoint.resume +
                                      ", is what the run began from; it has checkpoints of its own now");
            return start;
        }
        refuse_damaged(folder, damaged);
    }
    if (has_origin) {
        StartPoint start = start_from(spec.checkpoint.resume, spec.run, damaged);
        start.notes.insert(start.notes.begin(), "resume    auto: " +
                                                    (is_there ? folder + " has no checkpoint yet"
                                                              : "there is no run in " + folder + " yet") +
                                                    "; checkpoint.resume says what it begins from");
        if (start.run_directory.empty() && is_there) start.run_directory = folder;
        start.own_name = !is_there;
        return start;
    }
    if (is_there) return start_as_before(folder, damaged);
    StartPoint start;
    start.own_name = true;
    start.notes.push_back("resume    auto: there is no run in " + folder + " yet; this one starts it");
    return start;
}

}  // namespace

bool StartPoint::from_own_folder() const {
    return !checkpoint.empty() && !run_directory.empty() &&
           fs::path(checkpoint).parent_path() == fs::path(run_directory);
}

StartPoint choose_start(const config::JobSpec& spec, bool own_run_first,
                        const std::vector<Damaged>& damaged) {
    if (spec.checkpoint.resume == "none") return {};
    if (spec.checkpoint.resume != "auto" && !own_run_first)
        return start_from(spec.checkpoint.resume, spec.run, damaged);
    StartPoint start = start_auto(spec, damaged);
    note_newer_runs(spec.run, start);
    return start;
}

bool names_own_step(const config::JobSpec& spec) {
    const fs::path path = folder_of(spec.checkpoint.resume);
    return checkpoint::step_of_directory(path.filename().string()) &&
           is_own_folder(run_folder_of(path), spec.run);
}

std::string resume_argument(const config::RunConfig& run, const std::string& run_directory) {
    const bool first = fs::path(run_directory) == fs::path(run.dir) / run.name;
    return "--resume " + (first ? "auto" : run_directory);
}

}  // namespace escalier::train
