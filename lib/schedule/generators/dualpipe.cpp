// DualPipe (DeepSeek-V3, arXiv 2412.19437) and DualPipeV (github.com/deepseek-ai/DualPipe): every rank holds
// two stages that micro-batches cross in opposite directions, and runs the forward of one with the backward
// of the other as an overlapped pair.
#include <algorithm>
#include <array>
#include <deque>

#include "schedule/generators/kinds.h"
#include "schedule/generators/stage_actions.h"

namespace escalier::schedule::generators {
namespace {

// One rank's order. Phase 0 is the stage that micro-batches reach first, phase 1 the other.
class DualRank {
 public:
    DualRank(std::vector<Action>& actions, const StageActions& phase_0, const StageActions& phase_1)
        : actions_(actions), phases_{phase_0, phase_1} {}

    // On the `distance`-th rank from where micro-batches enter, `depth` ranks before they turn; written for
    // `full` micro-batches per phase, at least 2 * depth, of which `micro_batches` exist.
    void run(int distance, int depth, int full, int micro_batches) {
        const int inner = depth - 1 - distance;  // ranks between this one and the turn
        const auto times = [&](int count, auto round) { repeat(count, micro_batches, round); };
        times(2 * inner, [&] { forward(0); });
        times(distance + 1, [&] {
            forward(0);
            forward(1);
        });
        times(inner, [&] {
            input_gradient(1);
            weight_gradient();
            forward(1);
        });
        bool pairs = inner > 0;  // at the turn the first backward waits for the forward before it
        times(full - 2 * depth + distance + 1, [&] {
            forward_and_backward(0, 1, pairs);
            forward_and_backward(1, 0, true);
            pairs = true;
        });
        times(inner, [&] {
            backward(1);
            forward_and_backward(1, 0, true);
        });
        // Whole backwards in the first half of this step, input halves in the second.
        int round = 0;
        times(distance + 1, [&] {
            for (const int phase : {1, 0}) round++ <= distance ? backward(phase) : input_gradient(phase);
        });
        times(inner, [&] {
            weight_gradient();
            input_gradient(0);
        });
        while (!pending_.empty()) weight_gradient();
    }

 private:
    void forward(int phase) { phases_[phase].forward(); }
    void backward(int phase) { phases_[phase].backward(); }
    void input_gradient(int phase) {
        if (phases_[phase].input_gradient()) pending_.push_back(phase);
    }
    void weight_gradient() {  // the oldest of both phases
        if (pending_.empty()) return;
        phases_[pending_.front()].weight_gradient();
        pending_.pop_front();
    }
    void forward_and_backward(int forward_phase, int backward_phase, bool pair) {
        const bool forward_exists = phases_[forward_phase].forward();
        const std::size_t at = actions_.size() - 1;
        if (phases_[backward_phase].backward() && forward_exists) actions_[at].overlaps_next = pair;
    }

    std::vector<Action>& actions_;
    std::array<StageActions, 2> phases_;
    std::deque<int> pending_;  // phases whose weight gradients are due, oldest first
};

}  // namespace

// Two copies of the model: the first half of the micro-batches enters at rank 0, the second at rank P - 1,
// and they turn in the middle.
Schedule dualpipe(const GenerateOptions& options) {
    Schedule schedule = empty_schedule(options, Placement::bidirectional);
    const int pp = options.pp, first = options.micro_batches / 2, second = options.micro_batches - first;
    for (int rank = 0; rank < pp; ++rank) {
        auto& actions = schedule.ranks[static_cast<std::size_t>(rank)];
        const StageActions copy_0(actions, rank, 0, first), copy_1(actions, pp - 1 - rank, first, second);
        DualRank order =
            rank < pp / 2 ? DualRank(actions, copy_0, copy_1) : DualRank(actions, copy_1, copy_0);
        order.run(std::min(rank, pp - 1 - rank), pp / 2, std::max(pp, second), second);
    }
    return schedule;
}

// One copy cut in two chunks in V placement: micro-batches turn at the last rank.
Schedule dualpipev(const GenerateOptions& options) {
    Schedule schedule = empty_schedule(options, Placement::v);
    const int pp = options.pp, count = options.micro_batches;
    for (int rank = 0; rank < pp; ++rank) {
        auto& actions = schedule.ranks[static_cast<std::size_t>(rank)];
        const StageActions down(actions, rank, 0, count), up(actions, 2 * pp - 1 - rank, 0, count);
        DualRank(actions, down, up).run(rank, pp, std::max(2 * pp, count), count);
    }
    return schedule;
}

}  // namespace escalier::schedule::generators
