// ZB-V (Qi et al. 2023, arXiv 2401.10241, section 6).
#include <algorithm>

#include "schedule/generators/kinds.h"
#include "schedule/generators/stage_actions.h"

namespace escalier::schedule::generators {

// Down the ranks with the first chunk and back up with the second: rank 0 computes the loss and starts the
// backward at once. Written for at least 2P - 1 micro-batches.
Schedule zbv(const GenerateOptions& options) {
    Schedule schedule = empty_schedule(options, Placement::v);
    const int pp = options.pp, full = std::max(2 * pp - 1, options.micro_batches);
    for (int rank = 0; rank < pp; ++rank) {
        auto& actions = schedule.ranks[static_cast<std::size_t>(rank)];
        StageActions down(actions, rank, 0, options.micro_batches);
        StageActions up(actions, 2 * pp - 1 - rank, 0, options.micro_batches);
        const auto times = [&](int count, auto round) { repeat(count, options.micro_batches, round); };
        const auto up_and_back = [&] {
            up.forward();
            up.input_gradient();
            up.weight_gradient();
        };
        times(2 * (pp - rank) - 1, [&] { down.forward(); });
        times(rank, [&] {
            up.forward();
            down.forward();
        });
        times(pp - rank, up_and_back);
        times(full - pp, [&] {
            down.forward();  // in the last rounds there is none left
            down.input_gradient();
            down.weight_gradient();
            up_and_back();
        });
        times(rank, [&] {
            down.input_gradient();
            up.input_gradient();
        });
        times(pp - rank, [&] {
            down.input_gradient();
            down.weight_gradient();
        });
        times(rank, [&] { up.weight_gradient(); });
        times(rank, [&] { down.weight_gradient(); });
    }
    return schedule;
}

}  // namespace escalier::schedule::generators
