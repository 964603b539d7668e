#include "ckpt_check_command.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/model_tensors.h"
#include "checkpoint/run_folder.h"
#include "checkpoint/tensor_blocks.h"
#include "core/error.h"
#include "core/text.h"
#include "train/model_source.h"

namespace escalier::apps {

namespace {

// Everything that can be known about a checkpoint without training on; what is found, for the user. Throws at
// the first fault.
std::string find_no_fault(const std::string& directory) {
    const train::ModelSource source = train::open_checkpoint(directory);
    const checkpoint::CheckpointReader& reader = *source.snapshot;
    const checkpoint::Manifest& manifest = reader.manifest();
    std::int64_t bytes = 0, parameters = 0, tensors = 0;
    for (std::size_t i = 0; i < manifest.files.size(); ++i) {
        reader.verify_file(i);
        bytes += static_cast<std::int64_t>(manifest.files[i].bytes);
    }
    checkpoint::check_is_model(source.weights(), source.about.model);
    for (const checkpoint::StateKind kind : checkpoint::all_state_kinds) {
        const checkpoint::TensorSource& state = reader.tensors(kind);
        const bool weights = kind == checkpoint::StateKind::weight;
        for (const auto& [name, info] : state.tensors()) {
            checkpoint::require_finite(
                state, name,
                weights ? "tensor" : std::string(checkpoint::state_kind_name(kind)) + " of tensor");
            ++tensors;
            if (weights) parameters += checkpoint::whole_block(info.shape).elements();
        }
    }
    return grouped(parameters) + " parameters, " + grouped(tensors) + " tensors, " +
           std::to_string(manifest.files.size()) + " files, " + grouped(bytes) + " bytes";
}

// In a folder that is there, what is missing is damage too.
std::string check_checkpoint(const std::string& directory) {
    try {
        return find_no_fault(directory);
    } catch (const Error& error) {
        if (!std::filesystem::is_directory(directory)) throw;
        throw DataError(error.what());
    }
}

// Of a checkpoint that was listed.
std::string check_entry(const checkpoint::CheckpointEntry& entry) {
    if (!entry.fault.empty()) throw DataError(entry.fault);
    try {
        return "whole, " + check_checkpoint(entry.directory);
    } catch (const Error&) {
        if (std::filesystem::exists(entry.directory)) throw;
        return "let go by the run meanwhile";
    }
}

// What `latest` names must be there; returns that.
std::string check_latest(const std::string& run, const std::vector<checkpoint::CheckpointEntry>& entries) {
    const checkpoint::Choice newest = checkpoint::newest_checkpoint(run);
    if (!newest.warnings.empty()) throw DataError(newest.warnings.front());
    if (!std::filesystem::exists(run + "/" + checkpoint::latest_name))
        throw DataError(run + "/" + checkpoint::latest_name + " is missing, beside " +
                        std::to_string(entries.size()) + " checkpoints; a resume takes the newest whole one");
    return std::filesystem::path(newest.directory).filename().string();
}

// A run that goes on turns `latest` a moment after a checkpoint has its name: so a fault is looked at again.
std::string check_latest_again(const std::string& run,
                               const std::vector<checkpoint::CheckpointEntry>& entries) {
    for (int looks = 1; looks < 5; ++looks) try {
            return check_latest(run, entries);
        } catch (const DataError&) {
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
        }
    return check_latest(run, entries);
}

int check_run(const std::string& run) {
    const std::vector<checkpoint::CheckpointEntry> entries = checkpoint::list_checkpoints(run);
    if (entries.empty()) throw IoError::read(run + " holds no checkpoint (step_NNNNNNNN)");
    std::size_t damaged = 0;
    std::string first;
    const auto report = [&](const std::string& what, const auto& check) {
        try {
            const std::string found = check();
            std::cout << what << ": " << found << std::endl;
        } catch (const Error& error) {
            std::cout << what << ": DAMAGED: " << error.what() << std::endl;
            if (damaged++ == 0) first = error.what();
        }
    };
    for (const checkpoint::CheckpointEntry& entry : entries)
        report(entry.directory, [&] { return check_entry(entry); });
    report(run + "/" + checkpoint::latest_name, [&] { return "names " + check_latest_again(run, entries); });
    if (damaged == 0) return 0;
    throw DataError(damaged == 1 ? first
                                 : std::to_string(damaged) + " faults in " + run + "; the first: " + first);
}

int run_check(const std::string& path) {
    const bool one =
        std::filesystem::exists(path + "/" + checkpoint::manifest_name) ||
        checkpoint::step_of_directory(std::filesystem::weakly_canonical(path).filename().string());
    if (!one) {
        if (!std::filesystem::is_directory(path))
            throw IoError::read(path + " is no folder; name a run folder or one of its step folders");
        return check_run(path);
    }
    const std::string found = check_checkpoint(path);
    std::cout << path << ": whole, " << found << std::endl;
    return 0;
}

}  // namespace

void add_ckpt_check_command(CLI::App& ckpt, std::function<int()>& action) {
    auto path = std::make_shared<std::string>();
    CLI::App* command = ckpt.add_subcommand(
        "check",
        "Check a checkpoint, or all of a run: structure, hashes, every tensor of the model there and finite");
    command->add_option("path", *path, "Run folder or step folder")->required();
    command->callback([path, &action] { action = [path] { return run_check(*path); }; });
}

}  // namespace escalier::apps
