// Which checkpoints go once a newer one is durable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/file_layer.h"
#include "checkpoint/run_folder.h"
#include "config/job_spec.h"

namespace escalier::checkpoint {

// Of `entries`, by step: whole ones up to step `newest`, but for the keep_last newest of them and those of
// steps divisible by keep_every. Steps beyond `newest`, which another branch wrote, and damaged ones stay.
std::vector<std::string> expired_checkpoints(const std::vector<CheckpointEntry>& entries, std::int64_t newest,
                                             const config::CheckpointConfig& config);

// Removes them, oldest first. Returns warnings about what could not be.
std::vector<std::string> remove_expired(FileLayer& files, const std::string& run_directory,
                                        std::int64_t newest, const config::CheckpointConfig& config);

}  // namespace escalier::checkpoint
