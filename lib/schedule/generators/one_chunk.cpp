// Schedules of one stage per rank.
#include <algorithm>

#include "schedule/generators/kinds.h"

namespace escalier::schedule::generators {
namespace {

// Every rank in one pattern: a forward, the input half of the backward `input_lag` micro-batches behind it,
// and the weight half another `weight_lag` behind that; what falls outside the micro-batches is left out.
void append_lagging_halves(std::vector<Action>& actions, int rank, int micro_batches, int input_lag,
                           int weight_lag) {
    // From a lag of all micro-batches on, one kind runs after the other.
    input_lag = std::min(input_lag, micro_batches);
    weight_lag = input_lag + std::min(weight_lag, micro_batches);
    const auto append = [&](ActionKind kind, int mb) {
        if (mb >= 0 && mb < micro_batches) actions.push_back({kind, rank, mb});
    };
    for (int mb = 0; mb < micro_batches + weight_lag; ++mb) {
        append(ActionKind::F, mb);
        append(ActionKind::I, mb - input_lag);
        append(ActionKind::W, mb - weight_lag);
    }
}

}  // namespace

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

// Zero bubble H1 (Qi et al. 2023, arXiv 2401.10241): 1f1b whose weight gradients fill the end. They lag so
// that every rank keeps as many micro-batches alive as the first.
Schedule zb_h1(const GenerateOptions& options) {
    Schedule schedule = empty_schedule(options, Placement::loop);
    for (int rank = 0; rank < options.pp; ++rank)
        append_lagging_halves(schedule.ranks[static_cast<std::size_t>(rank)], rank, options.micro_batches,
                              options.pp - 1 - rank, rank);
    return schedule;
}

// Zero bubble H2 (same paper): twice the lags, so that the start is filled with forwards too.
Schedule zb_h2(const GenerateOptions& options) {
    Schedule schedule = empty_schedule(options, Placement::loop);
    for (int rank = 0; rank < options.pp; ++rank)
        append_lagging_halves(schedule.ranks[static_cast<std::size_t>(rank)], rank, options.micro_batches,
                              2 * (options.pp - 1 - rank), 2 * rank);
    return schedule;
}

}  // namespace escalier::schedule::generators
