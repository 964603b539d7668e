// The files of one rank.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/file_layer.h"
#include "checkpoint/manifest.h"
#include "checkpoint/share.h"

namespace escalier::checkpoint {

// The values of a piece of the share.
struct PieceValues {
    const float* data = nullptr;  // null: give up
    bool transposed = false;      // the other way round than they are stored
};

// Writes weights-RRRRR and optim-RRRRR into `directory`, durable on return but for their names; no file for
// nothing. Throws WriteCancelled, IoError (write), NumericError.
std::vector<ManifestFile> write_share(FileLayer& files, const std::string& directory, int world_rank,
                                      const std::vector<SharePiece>& share,
                                      const std::function<PieceValues(std::size_t piece)>& values,
                                      const std::atomic<bool>& cancel);

}  // namespace escalier::checkpoint
