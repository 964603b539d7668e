// manifest.json: what a checkpoint is of, its files and where each part of each tensor lies in them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/state.h"
#include "checkpoint/stored_block.h"

namespace escalier::checkpoint {

// The scalars that a resumed run goes on with.
struct RunState {
    std::int64_t step = 0;
    std::int64_t updates = 0;  // optimizer updates done; fewer than steps when some were skipped
    std::int64_t consumed_samples = 0;
    std::int64_t consumed_tokens = 0;
    std::int64_t seed = 0;
    std::string dataset_fingerprint;  // 16 hex digits; empty: none
    std::string tool_version;
    int tp = 1, pp = 1, dp = 1;  // the grid that saved it
    std::string schedule;
    std::string optimizer = "none";                // adamw | sgd | none: weights alone
    std::vector<double> loss_window, norm_window;  // of the spike guard
    std::int64_t skipped = 0;                      // steps without an update since the last one

    bool operator==(const RunState&) const = default;
};

struct ManifestFile {
    std::string name;  // plain, or hf/ and a plain name
    std::uint64_t bytes = 0;
    std::string xxh3_128;  // 32 hex digits

    bool operator==(const ManifestFile&) const = default;
};

struct ManifestPiece {
    std::size_t file = 0;  // index into Manifest::files
    std::string key;       // in that file
    Block block;           // of the stored tensor

    bool operator==(const ManifestPiece&) const = default;
};

struct ManifestTensor {
    std::vector<std::int64_t> shape;                                        // as stored, one or two extents
    std::array<std::vector<ManifestPiece>, all_state_kinds.size()> pieces;  // by StateKind

    const std::vector<ManifestPiece>& of(StateKind kind) const {
        return pieces[static_cast<std::size_t>(kind)];
    }
    bool operator==(const ManifestTensor&) const = default;
};

struct Manifest {
    RunState run;
    std::vector<ManifestFile> files;
    std::map<std::string, ManifestTensor> tensors;  // f32

    std::string text() const;  // JSON, with a hash of itself (XXH3_128)
    bool operator==(const Manifest&) const = default;
};

// A name that stays in its folder and shows in no message what it is not: letters, digits and ._-
bool plain_file_name(const std::string& name);

// Throws DataError, naming `path` and the fault, unless everything fits together: known version, the hash
// that the text has of itself, if it has one, plain file names, each tensor covered exactly once by its
// pieces, moments for all tensors or none.
Manifest parse_manifest(const std::string& text, const std::string& path);

// NAME where the block is the whole tensor, else NAME[r0:r1,c0:c1], of a vector NAME[r0:r1]; moments carry
// .exp_avg or .exp_avg_sq behind the name.
std::string piece_key(const std::string& name, StateKind kind, const std::vector<std::int64_t>& shape,
                      const Block& block);

}  // namespace escalier::checkpoint
