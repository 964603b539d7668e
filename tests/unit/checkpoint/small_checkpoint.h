// A checkpoint of two ranks: a matrix that is stored [6, 4], cut unevenly, and a vector [5] of the first
// rank.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "checkpoint/commit.h"
#include "checkpoint/write_share.h"

namespace escalier::checkpoint {

// Element (row, column) as stored; a vector is one row.
inline float small_value(StateKind kind, std::int64_t row, std::int64_t column) {
    return static_cast<float>(100 * (1 + static_cast<int>(kind)) + 10 * row + column);
}

inline std::vector<SharePiece> small_share(int rank) {
    std::vector<SharePiece> share;
    for (const StateKind kind : all_state_kinds) {
        const auto add = [&](const std::string& name, const std::vector<std::int64_t>& shape,
                             const Block& block) {
            share.push_back({share.size(), name, kind, shape, block, piece_key(name, kind, shape, block)});
        };
        add("m.weight", {6, 4}, rank == 0 ? Block{0, 0, 6, 1} : Block{0, 1, 2, 3});
        if (rank == 1) add("m.weight", {6, 4}, {2, 1, 4, 3});
        if (rank == 0) add("v.bias", {5}, {0, 0, 1, 5});
    }
    return share;
}

// Saves what ranks with these shares hold, each element its small_value, as RUN/step_NNNNNNNN; returns that
// folder.
inline std::string write_checkpoint_of(FileLayer& files, const std::string& run, std::int64_t step,
                                       const std::vector<std::vector<SharePiece>>& shares) {
    SaveFacts facts;
    facts.run.step = step;
    facts.run.optimizer = "adamw";
    facts.config_text = "version: 1\n";
    const std::string unfinished = unfinished_directory(run, step);
    files.make_directory(unfinished);
    std::vector<std::vector<ManifestFile>> written;
    for (const std::vector<SharePiece>& share : shares) {
        std::vector<float> values;
        const auto piece = [&](std::size_t i) {
            const Block& block = share[i].block;
            values.clear();
            for (std::int64_t row = 0; row < block.rows; ++row)
                for (std::int64_t column = 0; column < block.columns; ++column)
                    values.push_back(small_value(share[i].kind, block.row + row, block.column + column));
            return PieceValues{values.data(), false};
        };
        const std::atomic<bool> cancel = false;
        written.push_back(
            write_share(files, unfinished, static_cast<int>(written.size()), share, piece, cancel));
    }
    Manifest manifest;
    manifest.run = facts.run;
    fill_manifest(manifest, shares, written);
    commit(files, run, facts, manifest);
    return run + "/" + unfinished.substr(run.size() + 1, 13);
}

inline std::string write_small_checkpoint(FileLayer& files, const std::string& run, std::int64_t step) {
    return write_checkpoint_of(files, run, step, {small_share(0), small_share(1)});
}

}  // namespace escalier::checkpoint
