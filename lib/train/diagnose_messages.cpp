// Rules for points of the residual stream that another stage received: what it got must be what was sent.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "train/diagnose.h"

namespace escalier::train {

namespace {

// The stage that a point of the residual stream, counted from the bottom, leads into; upwards: forward.
std::size_t receiving_stage(const GridFacts& grid, std::int64_t point, bool upwards) {
    std::int64_t layers = 0;
    for (std::size_t stage = 0; stage < grid.layers_per_stage.size(); ++stage) {
        layers += grid.layers_per_stage[stage];
        if (2 * layers == point) return upwards ? stage + 1 : stage;
    }
    return 0;
}

std::string how(const std::vector<PairSums>& samples, const GridFacts& grid) {
    PairSums all;
    for (const PairSums& sample : samples) all += sample;
    if (all.misfit() < alike && !near(all.scale(), 1, alike))
        return fmt::format("it is {} times that", factor_text(all.scale(), grid));
    if (const std::optional<MovedRows> moved = moved_rows(samples, 0))
        return fmt::format(
            "{} ({} of {} samples in all): a buffer that is sent too late or written too "
            "early, or messages that are taken in another order",
            moved->example, moved->count, samples.size());
    if (const std::string type = coarse_type(all.relative_difference()); !type.empty())
        return "it lies as far away as rounding to " + type + " leaves it";
    const auto wrong = std::count_if(samples.begin(), samples.end(), [](const PairSums& sample) {
        return sample.dd > 0 || !std::isfinite(sample.dd);
    });
    return fmt::format("{} of {} samples differ, by {:.2g} of themselves", wrong, samples.size(),
                       all.relative_difference());
}

}  // namespace

MaybeDiagnosis diagnose_message(const StepEvidence& evidence, const TensorComparison& point) {
    const bool upwards = point.quantity == Quantity::activation;
    for (std::size_t side = 0; side < 2; ++side) {
        const CopyFindings& copies = point.copies[side];
        if (!copies.over_stages || copies.over_tp) continue;
        const GridFacts& grid = evidence.grids[side];
        const std::size_t to =
            receiving_stage(grid, upwards ? point.order : 2 * evidence.layers - point.order, upwards);
        return Diagnosis{"message between stages",
                         fmt::format("What stage {} of {} received as the {} is not what stage {} sent: {}.",
                                     to, side_name(side), point.name, upwards ? to - 1 : to + 1,
                                     how(point.received[side], grid))};
    }
    return std::nullopt;
}

}  // namespace escalier::train
