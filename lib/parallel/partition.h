// Which part of the model a stage holds.
#pragma once

#include <cstdint>
#include <vector>

namespace escalier::parallel {

struct StagePart {
    std::int64_t first_layer = 0;  // transformer layers [first_layer, end_layer) of the model
    std::int64_t end_layer = 0;
    bool embedding = false;  // the first stage
    bool head = false;       // the last stage

    std::int64_t layers() const { return end_layer - first_layer; }
    bool operator==(const StagePart&) const = default;
};

// layers_per_stage: one count per stage, from stage 0 on; counts may be 0 (a stage of embedding or head
// alone).
StagePart part_of_stage(const std::vector<std::int64_t>& layers_per_stage, int stage);

}  // namespace escalier::parallel
