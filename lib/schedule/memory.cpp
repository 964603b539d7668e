#include "schedule/memory.h"

#include <algorithm>

#include "core/check.h"

namespace escalier::schedule {

ActivationBytes ActivationBytes::unit(int stages) {
    const auto count = static_cast<std::size_t>(stages);
    return {std::vector<double>(count, 0), std::vector<double>(count, 1), std::vector<double>(count, 0)};
}

std::vector<double> peak_bytes(const Schedule& schedule, const ActivationBytes& bytes) {
    const auto stages = static_cast<std::size_t>(schedule.stages());
    ESCALIER_CHECK(bytes.forward.size() == stages && bytes.linear_inputs.size() == stages &&
                       bytes.output_gradients.size() == stages,
                   "bytes are given per stage");
    std::vector<double> peaks;
    for (const auto& actions : schedule.ranks) {
        double alive = 0, peak = 0;
        for (const Action& action : actions) {
            const auto stage = static_cast<std::size_t>(action.stage);
            if (action.kind == ActionKind::F) alive += bytes.forward[stage] + bytes.linear_inputs[stage];
            if (is_input_half(action.kind)) alive += bytes.output_gradients[stage];
            peak = std::max(peak, alive);
            if (is_input_half(action.kind)) alive -= bytes.forward[stage];
            if (is_weight_half(action.kind))
                alive -= bytes.linear_inputs[stage] + bytes.output_gradients[stage];
        }
        peaks.push_back(peak);
    }
    return peaks;
}

}  // namespace escalier::schedule
