#include "checkpoint/retention.h"

#include <filesystem>

#include "checkpoint/trash.h"
#include "core/error.h"

namespace escalier::checkpoint {

std::vector<std::string> expired_checkpoints(const std::vector<CheckpointEntry>& entries, std::int64_t newest,
                                             const config::CheckpointConfig& config) {
    std::vector<std::string> expired;
    if (config.keep_last == 0) return expired;
    std::int64_t kept = 0;
    for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
        if (entry->step > newest || !entry->fault.empty()) continue;
        if (kept++ < config.keep_last) continue;
        if (config.keep_every > 0 && entry->step % config.keep_every == 0) continue;
        expired.insert(expired.begin(), entry->directory);
    }
    return expired;
}

std::vector<std::string> remove_expired(FileLayer& files, const std::string& run_directory,
                                        std::int64_t newest, const config::CheckpointConfig& config) {
    std::vector<std::string> trash, warnings;
    for (const std::string& directory :
         expired_checkpoints(list_checkpoints(run_directory), newest, config)) {
        try {
            const std::string name = std::filesystem::path(directory).filename().string();
            trash.push_back(move_to_trash(files, run_directory, name));
        } catch (const IoError& error) {  // one that cannot go keeps no other
            warnings.push_back(error.what());
        }
    }
    try {
        // Or a loss of power could bring back a checkpoint without its files.
        if (!trash.empty()) files.sync_directory(run_directory);
    } catch (const IoError& error) {
        warnings.push_back(error.what());
        return warnings;
    }
    for (const std::string& warning : empty_trash(files, trash)) warnings.push_back(warning);
    return warnings;
}

}  // namespace escalier::checkpoint
