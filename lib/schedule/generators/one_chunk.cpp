// Schedules of one stage per rank.
#include <algorithm>

#include "schedule/generators/kinds.h"

namespace escalier::schedule::generators {

std::string one_chunk_problem(const GenerateOptions& options) {
    if (options.chunks == 1) return "";
    return "it has one chunk per rank, found chunks " + std::to_string(options.chunks) +
           "; leave chunks at 1";
}

// All forwards, then all backwards (Huang et al. 2019, arXiv 1811.06965).
Schedule gpipe(const GenerateOptions& options) {
    Schedule schedule = empty_schedule(options, Placement::loop);
    const int last = options.micro_batches - 1;
    for (int rank = 0; rank < options.pp; ++rank) {
        auto& actions = schedule.ranks[static_cast<std::size_t>(rank)];
        for (int mb = 0; mb <= last; ++mb) actions.push_back({ActionKind::F, rank, mb});
        for (int mb = 0; mb <= last; ++mb)
            actions.push_back(
                {ActionKind::B, rank, options.backward == BackwardOrder::lifo ? last - mb : mb});
    }
    return schedule;
}

// PipeDream-Flush (Narayanan et al. 2021, arXiv 2104.04473): as many forwards as ranks follow, then one
// forward and one backward in turn, then the backwards that are left.
Schedule one_forward_one_backward(const GenerateOptions& options) {
    Schedule schedule = empty_schedule(options, Placement::loop);
    for (int rank = 0; rank < options.pp; ++rank) {
        auto& actions = schedule.ranks[static_cast<std::size_t>(rank)];
        const int warm_up = std::min(options.pp - 1 - rank, options.micro_batches);
        for (int mb = 0; mb < warm_up; ++mb) actions.push_back({ActionKind::F, rank, mb});
        for (int mb = 0; mb < options.micro_batches; ++mb) {
            if (warm_up + mb < options.micro_batches) actions.push_back({ActionKind::F, rank, warm_up + mb});
            actions.push_back({ActionKind::B, rank, mb});
        }
    }
    return schedule;
}

}  // namespace escalier::schedule::generators
