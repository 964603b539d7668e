#include "checkpoint/commit.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include "checkpoint/file_hash.h"
#include "checkpoint/read_blocks.h"
#include "checkpoint/run_folder.h"
#include "checkpoint/trash.h"
#include "core/error.h"

namespace escalier::checkpoint {

namespace fs = std::filesystem;

namespace {

// `from` as the file `name` of the folder `directory`.
ManifestFile copy_file(FileLayer& files, const std::string& from, const std::string& directory,
                       const std::string& name) {
    const std::unique_ptr<OutputFile> out = files.create(directory + "/" + name);
    ManifestFile copied{name, 0, ""};
    FileHash hash;
    read_blocks(from, [&](const char* data, std::size_t bytes) {
        out->write(data, bytes);
        hash.add(data, bytes);
        copied.bytes += bytes;
    });
    out->sync();
    copied.xxh3_128 = hash.hex();
    return copied;
}

std::vector<ManifestFile> copy_assets(FileLayer& files, const SaveFacts& facts, const std::string& to) {
    const std::string& from = facts.assets_directory;
    const auto wanted = [&](const std::string& name) {
        const auto& names = facts.asset_names;
        return plain_file_name(name) &&
               (names.empty() || std::find(names.begin(), names.end(), name) != names.end());
    };
    std::vector<std::string> assets;
    std::error_code error, ignored;  // of a link that leads nowhere
    for (fs::directory_iterator at(from, error), end; !error && at != end; at.increment(error))
        if (const std::string name = at->path().filename().string();
            wanted(name) && at->is_regular_file(ignored))
            assets.push_back(name);
    if (error) throw IoError::read(from + ": cannot be listed: " + error.message());
    std::sort(assets.begin(), assets.end());
    files.make_directory(to + "/" + assets_name);
    std::vector<ManifestFile> copied;
    for (const std::string& asset : assets)
        copied.push_back(copy_file(files, from + "/" + asset, to, std::string(assets_name) + "/" + asset));
    files.sync_directory(to + "/" + assets_name);
    return copied;
}

// Gives the unfinished folder its name. Where the name is taken, the two change places, so that a whole
// checkpoint has it at every instant; or the old one steps aside, from where it can come back. Returns where
// the old one lies then.
std::optional<std::string> take_name(FileLayer& files, const std::string& run_directory, std::int64_t step) {
    const std::string name = step_directory_name(step), path = run_directory + "/" + name;
    const std::string unfinished = unfinished_directory(run_directory, step);
    if (!fs::exists(path)) {
        files.rename(unfinished, path);
        return std::nullopt;
    }
    if (files.exchange(unfinished, path))
        return move_to_trash(files, run_directory, name + unfinished_suffix);
    const std::string aside = set_aside(files, run_directory, step);
    try {
        files.rename(unfinished, path);
    } catch (const IoError&) {
        try {
            files.rename(aside, path);
        } catch (const IoError&) {
            // The first failure is the one to tell; the next start gives the name back.
        }
        throw;
    }
    return aside;
}

}  // namespace

std::string unfinished_directory(const std::string& run_directory, std::int64_t step) {
    return run_directory + "/" + step_directory_name(step) + unfinished_suffix;
}

std::optional<std::string> commit(FileLayer& files, const std::string& run_directory, const SaveFacts& facts,
                                  const Manifest& manifest) {
    const std::string unfinished = unfinished_directory(run_directory, facts.run.step);
    write_file(files, unfinished + "/" + config_name, facts.config_text);
    Manifest whole = manifest;
    FileHash hash;
    hash.add(facts.config_text.data(), facts.config_text.size());
    whole.files.push_back({config_name, facts.config_text.size(), hash.hex()});
    if (!facts.assets_directory.empty())
        for (ManifestFile& asset : copy_assets(files, facts, unfinished)) whole.files.push_back(asset);
    write_file(files, unfinished + "/" + manifest_name, whole.text());
    files.sync_directory(unfinished);
    const std::optional<std::string> replaced = take_name(files, run_directory, facts.run.step);
    files.sync_directory(run_directory);

    turn_latest(files, run_directory, facts.run.step);
    return replaced;
}

void turn_latest(FileLayer& files, const std::string& run_directory, std::int64_t step) {
    const std::string latest = run_directory + "/" + latest_name;
    write_file(files, latest + ".tmp", step_directory_name(step) + "\n");
    files.rename(latest + ".tmp", latest);
    files.sync_directory(run_directory);
}

}  // namespace escalier::checkpoint
