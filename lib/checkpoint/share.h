// Which part of a rank's state it writes itself, and how the parts of all ranks make up whole tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/state.h"

namespace escalier::checkpoint {

// One tensor of a rank's share, as it is stored.
struct SharePiece {
    std::size_t tensor = 0;  // index into the rank's StateList
    std::string name;
    StateKind kind = StateKind::weight;
    std::vector<std::int64_t> shape;  // of the whole tensor
    Block block;
    std::string key;

    std::int64_t elements() const { return block.elements(); }
};

// The counted tensors of `state` that rank `dp_rank` of `dp` ranks with the same state writes: about the same
// bytes each, the same answer on all of them.
std::vector<SharePiece> share_of(const StateList& state, int dp_rank, int dp);

// The one of `dp` ranks with the same state whose share is the largest in arenas.
int fullest_share(const StateList& state, int dp);

// weights-RRRRR.safetensors or optim-RRRRR.safetensors.
std::string share_file_name(bool weights, int world_rank);

// For the exchange between ranks.
std::string share_text(const std::vector<SharePiece>& share);
std::vector<SharePiece> parse_share(const std::string& text);

// Files and tensors of a manifest from the shares by world rank, and files[rank] as written (weights first).
// Throws InternalError unless the shares cover every tensor exactly once.
void fill_manifest(Manifest& manifest, const std::vector<std::vector<SharePiece>>& shares,
                   const std::vector<std::vector<ManifestFile>>& files);

}  // namespace escalier::checkpoint
