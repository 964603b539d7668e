#include "ckpt_ls_command.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/run_folder.h"
#include "checkpoint/trash.h"
#include "ckpt_open.h"
#include "core/error.h"
#include "core/text.h"
#include "text_table.h"

namespace escalier::apps {

namespace {

namespace fs = std::filesystem;

// Losses by step; the last line of a step counts. A file that is cut off or missing has what it has.
std::map<std::int64_t, double> losses_of(const std::string& run) {
    std::map<std::int64_t, double> losses;
    std::ifstream file(run + "/metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
        const nlohmann::json event = nlohmann::json::parse(line, nullptr, false);
        if (!event.is_object() || event.value("event", nlohmann::json()) != "step") continue;
        const nlohmann::json step = event.value("step", nlohmann::json()),
                             loss = event.value("loss", nlohmann::json());
        if (step.is_number_integer() && loss.is_number())
            losses[step.get<std::int64_t>()] = loss.get<double>();
    }
    return losses;
}

std::string name_in_latest(const std::string& run) {
    std::string name;
    std::ifstream file(run + "/" + checkpoint::latest_name);
    std::getline(file, name);
    return name;
}

std::string count(std::int64_t value) {
    return grouped(value);
}

// Empty: it was let go by the run meanwhile.
Row row_of(const checkpoint::CheckpointEntry& entry, const std::map<std::int64_t, double>& losses,
           const std::string& latest) {
    const std::string step = std::to_string(entry.step);
    if (!entry.fault.empty()) return {step, "-", "-", "-", "-", "-", "-", "DAMAGED: " + entry.fault};
    checkpoint::Manifest manifest;
    try {
        manifest = checkpoint::read_manifest(entry.directory);
    } catch (const Error&) {
        if (fs::exists(entry.directory)) throw;
        return {};
    }
    std::uint64_t bytes = 0;
    for (const checkpoint::ManifestFile& file : manifest.files) bytes += file.bytes;
    const auto loss = losses.find(entry.step);
    return {step,
            loss == losses.end() ? "-" : fmt::format("{:.6f}", loss->second),
            count(manifest.run.consumed_samples),
            count(manifest.run.consumed_tokens),
            count(static_cast<std::int64_t>(bytes)),
            change_time(entry.directory + "/" + checkpoint::manifest_name),
            fmt::format("{}x{}x{}", manifest.run.tp, manifest.run.pp, manifest.run.dp),
            fs::path(entry.directory).filename() == latest ? "latest" : ""};
}

// Saves that were cut off, or are under way, and what is being removed.
void print_leftovers(const std::string& run) {
    std::vector<std::string> unfinished, trash;
    std::error_code error;
    for (fs::directory_iterator at(run, error), end; !error && at != end; at.increment(error)) {
        const std::string name = at->path().filename().string();
        if (name.starts_with(checkpoint::trash_prefix)) trash.push_back(name);
        if (name.starts_with("step_") && name.ends_with(".tmp")) unfinished.push_back(name);
    }
    std::sort(unfinished.begin(), unfinished.end());
    std::sort(trash.begin(), trash.end());
    for (const std::string& name : unfinished)
        std::cout << "unfinished: " << name << " (a save that is under way or was cut off)\n";
    for (const std::string& name : trash)
        std::cout << "being removed: " << name << " (the next run in this folder removes the rest)\n";
}

int run_ls(const std::string& run) {
    if (!fs::is_directory(run)) throw IoError::read(run + " is no folder; name a run folder");
    const std::vector<checkpoint::CheckpointEntry> entries = checkpoint::list_checkpoints(run);
    const std::map<std::int64_t, double> losses = losses_of(run);
    const std::string latest = name_in_latest(run);
    std::vector<Row> rows = {{"step", "loss", "samples", "tokens", "bytes", "saved", "grid", ""}};
    bool latest_is_there = latest.empty();
    for (const checkpoint::CheckpointEntry& entry : entries) {
        if (Row row = row_of(entry, losses, latest); !row.empty()) rows.push_back(std::move(row));
        latest_is_there |= fs::path(entry.directory).filename() == latest;
    }
    if (entries.empty())
        std::cout << run << " holds no checkpoint\n";
    else
        std::cout << text_table(rows);
    std::error_code no_name;  // too long for one, say
    if (!latest_is_there && !fs::exists(run + "/" + latest, no_name) && latest == name_in_latest(run))
        std::cout << "latest names " << shortened(latest) << ", which is not there\n";
    print_leftovers(run);
    return 0;
}

}  // namespace

void add_ckpt_ls_command(CLI::App& ckpt, std::function<int()>& action) {
    auto path = std::make_shared<std::string>();
    CLI::App* command = ckpt.add_subcommand("ls", "List the checkpoints of a run");
    command->add_option("run", *path, "Run folder")->required();
    command->callback([path, &action] { action = [path] { return run_ls(*path); }; });
}

}  // namespace escalier::apps
