// V-Half and V-Min (Qi et al. 2024, "Pipeline Parallelism with Controllable Memory", arXiv 2405.15362). A
// building block says when the F and I of one micro-batch run on every stage; repeated every six time steps,
// F, I and W of a rank's two stages fill its time without a gap. How long a micro-batch stays on a rank, from
// F to W, fixes how many are alive there; in V placement long and short stays meet on every rank.
#include <cstdint>
#include <deque>
#include <optional>

#include "core/check.h"
#include "schedule/generators/kinds.h"

namespace escalier::schedule::generators {
namespace {

std::size_t at(int i) {
    return static_cast<std::size_t>(i);
}

struct BuildingBlock {
    std::vector<int> forward;         // per stage, the time step of micro-batch 0
    std::vector<int> input_gradient;  // likewise
    int most_alive;  // per rank, stages' activations from F to W; the repeated block needs no more
};
constexpr int period = 6;

// Forwards go down the V at one stage in two steps and up at one in one, backwards likewise: half of 1f1b's
// 2P. Between the two a pause that keeps a rank's actions on different steps.
BuildingBlock v_half_block(int pp) {
    BuildingBlock block;
    const int stages = 2 * pp, pause = pp % 2 == 0 ? 3 : 0;
    for (int stage = 0; stage < stages; ++stage) {
        const int back = stages - 1 - stage;  // as seen from the end, where the backward begins
        block.forward.push_back(stage < pp ? 2 * stage : pp - 1 + stage);
        block.input_gradient.push_back(3 * pp + pause - 1 + (back < pp ? 2 * back : pp - 1 + back));
    }
    block.most_alive = 2 * ((pp + 2) / 2);
    return block;
}

// One stage in one step all the way, the shortest stay there is: a third of 1f1b's 2P.
BuildingBlock v_min_block(int pp) {
    BuildingBlock block;
    const int stages = 2 * pp, pause = pp % 3 == 0 ? 2 : 0;
    for (int stage = 0; stage < stages; ++stage) {
        block.forward.push_back(stage);
        block.input_gradient.push_back(stages + pause + stages - 1 - stage);
    }
    block.most_alive = 2 * ((pp + 4) / 3);
    return block;
}

// Squeezes the repeated block: its order of F's and of I's on each rank stays, but at every time step a rank
// runs the one of the two that can run (of both the one that the block has first), F only while memory
// is left, and a W, oldest I first, when neither can. That fills warm-up and cool-down.
//
// It ends: the action that is left with the least time in the block waits for nothing but time, since the
// block itself respects data and memory.
class Squeezer {
 public:
    Squeezer(const GenerateOptions& options, const BuildingBlock& block)
        : block_(block),
          schedule_(empty_schedule(options, Placement::v)),
          stages_(schedule_.stages()),
          done_{std::vector<int>(at(stages_)), std::vector<int>(at(stages_)), std::vector<int>(at(stages_))},
          waiting_weights_(at(options.pp)),
          alive_(at(options.pp)) {}

    Schedule run() {
        std::int64_t left = std::int64_t{3} * stages_ * schedule_.micro_batches;
        while (left > 0) {
            before_ = done_;
            const std::int64_t at_start = left;
            for (int rank = 0; rank < schedule_.pp; ++rank) left -= step(rank) ? 1 : 0;
            ESCALIER_CHECK(left < at_start, "a building block needs more memory than it says");
        }
        return std::move(schedule_);
    }

 private:
    // Micro-batches done per stage.
    struct Done {
        std::vector<int> forward, input_gradient, weight_gradient;
    };
    struct Next {
        int stage;
        int block_time;
    };

    // The rank's next F (or I) in the order of the block.
    std::optional<Next> next(int rank, const std::vector<int>& times, const std::vector<int>& done) const {
        std::optional<Next> best;
        for (const int stage : {rank, stages_ - 1 - rank}) {
            if (done[at(stage)] == schedule_.micro_batches) continue;
            const int time = times[at(stage)] + period * done[at(stage)];
            if (!best || time < best->block_time) best = Next{stage, time};
        }
        return best;
    }

    bool forward_can_run(int rank, int stage) const {
        return alive_[at(rank)] < block_.most_alive &&
               (stage == 0 || before_.forward[at(stage - 1)] > done_.forward[at(stage)]);
    }
    bool input_gradient_can_run(int stage) const {
        const int mb = done_.input_gradient[at(stage)];
        return before_.forward[at(stage)] > mb &&
               (stage == stages_ - 1 || before_.input_gradient[at(stage + 1)] > mb);
    }

    bool step(int rank) {
        auto forward = next(rank, block_.forward, done_.forward);
        auto backward = next(rank, block_.input_gradient, done_.input_gradient);
        if (forward && !forward_can_run(rank, forward->stage)) forward.reset();
        if (backward && !input_gradient_can_run(backward->stage)) backward.reset();
        auto& actions = schedule_.ranks[at(rank)];
        if (forward && (!backward || forward->block_time < backward->block_time)) {
            actions.push_back({ActionKind::F, forward->stage, done_.forward[at(forward->stage)]++});
            ++alive_[at(rank)];
            return true;
        }
        auto& weights = waiting_weights_[at(rank)];
        if (backward) {
            actions.push_back({ActionKind::I, backward->stage, done_.input_gradient[at(backward->stage)]++});
            weights.push_back(backward->stage);
            return true;
        }
        if (weights.empty()) return false;
        const int stage = weights.front();
        weights.pop_front();
        actions.push_back({ActionKind::W, stage, done_.weight_gradient[at(stage)]++});
        --alive_[at(rank)];
        return true;
    }

    const BuildingBlock& block_;
    Schedule schedule_;
    int stages_;
    Done done_, before_;                            // now, and at the end of the last time step
    std::vector<std::deque<int>> waiting_weights_;  // per rank: the stages of I's without their W
    std::vector<int> alive_;                        // per rank: activations between F and W
};

}  // namespace

Schedule v_half(const GenerateOptions& options) {
    return Squeezer(options, v_half_block(options.pp)).run();
}

Schedule v_min(const GenerateOptions& options) {
    return Squeezer(options, v_min_block(options.pp)).run();
}

}  // namespace escalier::schedule::generators
