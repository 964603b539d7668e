// The hashes of a checkpoint's files, held against its manifest.
#pragma once

#include <cstddef>
#include <vector>

#include "checkpoint/reader.h"
#include "comm/mpi_env.h"

namespace escalier::checkpoint {

// Indexes of the files that say what the model is and what its weights are: config, weights and what came
// with an import; all but those of moments alone.
std::vector<std::size_t> files_of_the_model(const Manifest& manifest);

// Reads those files. Throws DataError (65) when one does not have the hash that the manifest gives.
void verify_model(const CheckpointReader& reader);

// The same by all ranks together, each file by one of them; verify_files reads all files. Collective over the
// world. Throws on all ranks alike (AgreedError, 65).
void verify_model(const CheckpointReader& reader, comm::MpiEnv& env);
void verify_files(const CheckpointReader& reader, comm::MpiEnv& env);

}  // namespace escalier::checkpoint
