// The hashes of all files of a checkpoint, looked at by all ranks together.
#pragma once

#include "checkpoint/reader.h"
#include "comm/mpi_env.h"

namespace escalier::checkpoint {

// Collective over the world. Each file is read by one rank. Throws on all ranks alike (AgreedError, 65) when
// one does not have the hash that the manifest gives.
void verify_files(const CheckpointReader& reader, comm::MpiEnv& env);

}  // namespace escalier::checkpoint
