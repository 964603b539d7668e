#include "parallel/partition.h"

#include <numeric>

#include "core/check.h"

namespace escalier::parallel {

StagePart part_of_stage(const std::vector<std::int64_t>& layers_per_stage, int stage) {
    const auto stages = static_cast<int>(layers_per_stage.size());
    ESCALIER_CHECK(stage >= 0 && stage < stages, "no such stage");
    const std::int64_t first =
        std::accumulate(layers_per_stage.begin(), layers_per_stage.begin() + stage, std::int64_t{0});
    return {first, first + layers_per_stage[static_cast<std::size_t>(stage)], stage == 0,
            stage == stages - 1};
}

}  // namespace escalier::parallel
