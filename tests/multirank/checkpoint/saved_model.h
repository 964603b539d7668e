// A small model on a grid with moments of its own and a saver.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/saver.h"
#include "tests/multirank/optim/grid_model.h"

namespace escalier::multirank {

class SavedModel {
 public:
    // Collective over the world. Weights are the initial ones for `seed`, moments functions of them, of the
    // kind and of `seed`.
    SavedModel(const std::string& model, const parallel::Grid& grid, std::uint64_t seed,
               const config::CheckpointConfig& config);

    // Adds `change` to every value of the state.
    void change(float change);
    // All values, as they are.
    std::vector<std::vector<float>> values() const;
    // What step `step` saves.
    checkpoint::SaveFacts facts(std::int64_t step) const;

    GridModel model;
    std::vector<std::vector<float>> moments;  // outlive the list, which views them
    checkpoint::StateList state;
    std::unique_ptr<device::Arenas> arenas;
    std::unique_ptr<checkpoint::Saver> saver;
};

}  // namespace escalier::multirank
