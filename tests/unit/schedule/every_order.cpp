#include "every_order.h"

#include <algorithm>
#include <limits>

namespace escalier::schedule {
namespace {

std::size_t at(int i) {
    return static_cast<std::size_t>(i);
}

// Every order of one rank in which no action comes before one that it needs on this rank.
class RankOrders {
 public:
    RankOrders(const Schedule& shape, const StageCosts& costs, int rank, OrderRule rule)
        : shape_(shape),
          costs_(costs),
          rank_(rank),
          rule_(rule),
          state_(at(shape.stages() * shape.micro_batches)) {
        for (int stage = 0; stage < shape.stages(); ++stage)
            if (shape.rank_of(stage) == rank) stages_.push_back(stage);
        extend();
    }
    std::vector<std::vector<Action>> orders;

 private:
    // Of a stage and micro-batch: how many of F, I, W are placed.
    int& done(int stage, int mb) { return state_[at(stage * shape_.micro_batches + mb)]; }

    bool allowed(int stage, int mb) {
        const int step = done(stage, mb);
        if (step == 3) return false;
        const bool in_order = rule_ == OrderRule::ascending || step == 2;
        if (in_order && mb > 0 && done(stage, mb - 1) <= step) return false;
        for (const int other : stages_) {
            if (step == 0 && other < stage && done(other, mb) < 1) return false;
            if (step == 1 && other > stage && done(other, mb) < 2) return false;
        }
        return true;
    }

    double alive() {
        double bytes = 0;
        for (const int stage : stages_) {
            for (int mb = 0; mb < shape_.micro_batches; ++mb) {
                if (done(stage, mb) == 1) bytes += costs_.bytes.forward[at(stage)];
                if (done(stage, mb) == 1 || done(stage, mb) == 2)
                    bytes += costs_.bytes.linear_inputs[at(stage)];
                if (done(stage, mb) == 2) bytes += costs_.bytes.output_gradients[at(stage)];
            }
        }
        return bytes;
    }

    bool fits(int stage, int mb) {
        if (costs_.memory_limits.empty()) return true;
        const int step = done(stage, mb);
        double bytes = alive();
        if (step == 0) bytes += costs_.bytes.forward[at(stage)] + costs_.bytes.linear_inputs[at(stage)];
        if (step == 1) bytes += costs_.bytes.output_gradients[at(stage)];
        return bytes <= costs_.memory_limits[at(rank_)] + 1e-9;
    }

    void extend() {
        if (order_.size() == 3 * stages_.size() * at(shape_.micro_batches)) orders.push_back(order_);
        for (const int stage : stages_) {
            for (int mb = 0; mb < shape_.micro_batches; ++mb) {
                if (!allowed(stage, mb) || !fits(stage, mb)) continue;
                constexpr ActionKind kinds[] = {ActionKind::F, ActionKind::I, ActionKind::W};
                order_.push_back({kinds[done(stage, mb)++], stage, mb});
                extend();
                order_.pop_back();
                --done(stage, mb);
            }
        }
    }

    const Schedule& shape_;
    const StageCosts& costs_;
    int rank_;
    OrderRule rule_;
    std::vector<int> stages_, state_;
    std::vector<Action> order_;
};

// Times a schedule by going round the ranks until nothing moves.
class Rounds {
 public:
    Rounds(const Schedule& shape, const Durations& durations) : shape_(shape), durations_(durations) {}

    // Infinite when the ranks wait for one another.
    double makespan(const std::vector<const std::vector<Action>*>& ranks) {
        const auto cells = at(shape_.stages() * shape_.micro_batches);
        ready_[0].assign(cells, never);
        ready_[1].assign(cells, never);
        channel_[0].assign(at(shape_.stages()), 0);
        channel_[1] = channel_[0];
        std::vector<std::size_t> next(ranks.size());
        std::vector<double> now(ranks.size());
        for (bool moved = true; moved;) {
            moved = false;
            for (std::size_t rank = 0; rank < ranks.size(); ++rank)
                while (next[rank] < ranks[rank]->size() && step((*ranks[rank])[next[rank]], now[rank])) {
                    ++next[rank];
                    moved = true;
                }
        }
        for (std::size_t rank = 0; rank < ranks.size(); ++rank)
            if (next[rank] < ranks[rank]->size()) return never;
        return *std::max_element(now.begin(), now.end());
    }

 private:
    static constexpr double never = std::numeric_limits<double>::infinity();

    bool step(const Action& action, double& now) {
        const std::size_t stage = at(action.stage);
        if (action.kind == ActionKind::W) {
            now += durations_.weight_gradient[stage];
            return true;
        }
        const bool forward = action.kind == ActionKind::F;
        const int end_stage = forward ? 0 : shape_.stages() - 1,
                  to = forward ? action.stage + 1 : action.stage - 1;
        std::vector<double>& ready = ready_[forward ? 0 : 1];
        const auto cell = [&](int of) { return at(of * shape_.micro_batches + action.micro_batch); };
        const double start = action.stage == end_stage ? now : std::max(now, ready[cell(action.stage)]);
        if (start == never) return false;
        now = start + (forward ? durations_.forward : durations_.input_gradient)[stage];
        if (to < 0 || to >= shape_.stages()) return true;
        double arrives = now;
        if (shape_.rank_of(to) != shape_.rank_of(action.stage)) {
            double& channel = channel_[forward ? 0 : 1][at(to)];
            arrives = channel = std::max(channel, now) + durations_.transfer;
        }
        ready[cell(to)] = arrives;
        return true;
    }

    const Schedule& shape_;
    const Durations& durations_;
    std::vector<double> ready_[2], channel_[2];  // forward, backward
};

}  // namespace

Schedule best_of_every_order(const GenerateOptions& options, Placement placement, OrderRule rule) {
    Schedule best;
    best.kind = "every order";
    best.pp = options.pp;
    best.chunks = options.chunks;
    best.micro_batches = options.micro_batches;
    best.placement = placement;
    std::vector<std::vector<std::vector<Action>>> orders;
    for (int rank = 0; rank < options.pp; ++rank)
        orders.push_back(RankOrders(best, *options.costs, rank, rule).orders);
    Rounds rounds(best, options.costs->durations);
    std::vector<std::size_t> choice(orders.size());
    std::vector<const std::vector<Action>*> ranks(orders.size());
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t rank = 0; rank < orders.size();) {
        for (std::size_t i = 0; i < orders.size(); ++i) ranks[i] = &orders[i][choice[i]];
        if (const double makespan = rounds.makespan(ranks); makespan < least) {
            least = makespan;
            best.ranks.clear();
            for (const auto* order : ranks) best.ranks.push_back(*order);
        }
        for (rank = 0; rank < orders.size() && ++choice[rank] == orders[rank].size(); ++rank)
            choice[rank] = 0;
    }
    return best;
}

}  // namespace escalier::schedule
