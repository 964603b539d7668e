// Published orders of several stages per rank, written down stage by stage.
#pragma once

#include <algorithm>
#include <vector>

#include "schedule/action.h"

namespace escalier::schedule::generators {

// Appends the actions of one stage to its rank's list, every kind in micro-batch order. Orders that need a
// least number of micro-batches are written for that many, and actions beyond the last micro-batch are left
// out here: micro-batches do not depend on one another, so what remains is still a valid order.
class StageActions {
 public:
    // For micro-batches first to first + count - 1.
    StageActions(std::vector<Action>& actions, int stage, int first, int count)
        : actions_(actions), stage_(stage), first_(first), count_(count) {}

    // Each the next of its kind; false when it was beyond the last micro-batch.
    bool forward() { return append(ActionKind::F, forwards_); }
    bool input_gradient() { return append(ActionKind::I, backwards_); }
    bool weight_gradient() { return append(ActionKind::W, weights_); }
    // Requires that no weight gradient is pending.
    bool backward() {
        ++weights_;
        return append(ActionKind::B, backwards_);
    }

 private:
    bool append(ActionKind kind, int& next) {
        const int micro_batch = next++;
        if (micro_batch >= count_) return false;
        actions_.push_back({kind, stage_, first_ + micro_batch});
        return true;
    }

    std::vector<Action>& actions_;
    int stage_, first_, count_;
    int forwards_ = 0, backwards_ = 0, weights_ = 0;
};

// Runs `round` `count` times, but no more often than there are micro-batches: when a round runs each of its
// actions for the next micro-batch, later ones are beyond the last.
template <class Round>
void repeat(int count, int micro_batches, Round round) {
    for (int i = 0; i < std::min(count, micro_batches); ++i) round();
}

}  // namespace escalier::schedule::generators
