#include "checkpoint/write_checkpoint.h"

#include <atomic>
#include <filesystem>

#include "checkpoint/leftovers.h"
#include "checkpoint/run_folder.h"
#include "checkpoint/tensor_blocks.h"
#include "checkpoint/trash.h"
#include "checkpoint/write_share.h"
#include "core/error.h"

namespace escalier::checkpoint {

namespace {

std::vector<SharePiece> whole_tensors(const TensorSource& weights) {
    std::vector<SharePiece> share;
    for (const auto& [name, info] : weights.tensors()) {
        if (info.shape.size() != 1 && info.shape.size() != 2)
            throw DataError(weights.path() + ": tensor '" + name + "' is " + info.text() +
                            "; weights are vectors or matrices");
        share.push_back({share.size(), name, StateKind::weight, info.shape, whole_block(info.shape), name});
    }
    return share;
}

model::Box box_of(const std::vector<std::int64_t>& shape) {
    if (shape.size() == 1) return {{0}, {shape[0]}};
    return {{0, 0}, {shape[0], shape[1]}};
}

// A save speaks of the run that made the numbers; here they came from outside.
[[noreturn]] void refuse_not_finite(const TensorSource& weights) {
    try {
        for (const auto& [name, info] : weights.tensors()) require_finite(weights, name, "tensor");
    } catch (const DataError& error) {
        throw DataError(std::string(error.what()) +
                        "; only finite weights can be trained on. Fetch or write the file anew.");
    }
    throw DataError(weights.path() + ": changed while it was read. Start again.");
}

}  // namespace

std::string write_checkpoint(const std::string& run_directory, const TensorSource& weights,
                             const SaveFacts& facts, FileLayer& files) {
    remove_leftovers(files, run_directory);
    const std::string unfinished = unfinished_directory(run_directory, facts.run.step);
    files.make_directory(unfinished);
    try {
        const std::vector<SharePiece> share = whole_tensors(weights);
        std::vector<float> tensor;
        const auto values = [&](std::size_t piece) {
            tensor.resize(static_cast<std::size_t>(share[piece].elements()));
            weights.read_box(share[piece].name, box_of(share[piece].shape), false, tensor.data());
            return PieceValues{tensor.data(), false};
        };
        const std::atomic<bool> cancel = false;
        Manifest manifest;
        manifest.run = facts.run;
        fill_manifest(manifest, {share}, {write_share(files, unfinished, 0, share, values, cancel)});
        const std::optional<std::string> replaced = commit(files, run_directory, facts, manifest);
        if (replaced) empty_trash(files, {*replaced});  // the next start does what it could not
    } catch (const std::exception& error) {
        try {
            if (std::filesystem::exists(unfinished)) remove_tree(files, unfinished);
        } catch (const IoError&) {
            // The first failure is the one to tell; the next start removes what is left.
        }
        if (dynamic_cast<const NumericError*>(&error)) refuse_not_finite(weights);
        throw;
    }
    return run_directory + "/" + step_directory_name(facts.run.step);
}

}  // namespace escalier::checkpoint
