#include "schedule/generators/exact_search.h"

#include <algorithm>
#include <map>

namespace escalier::schedule::generators {
namespace {

std::size_t at(int i) {
    return static_cast<std::size_t>(i);
}

// Actions are placed in order of their start times, each as early as its data and its rank allow; every
// schedule that leaves no avoidable gap is one such sequence.
class BranchAndBound {
 public:
    BranchAndBound(const PlacedModel& model, double than, std::int64_t most_nodes)
        : model_(model),
          micro_batches_(model.shape.micro_batches),
          shortest_(than),
          nodes_left_(most_nodes),
          forwards_(at(model.stages)),
          input_gradients_(forwards_),
          weight_gradients_(forwards_),
          forward_ends_(at(model.stages) * at(micro_batches_)),
          activation_arrives_(forward_ends_),
          gradient_arrives_(forward_ends_),
          gradient_ends_(forward_ends_),
          free_at_(at(model.shape.pp)) {
        for (int rank = 0; rank < model.shape.pp; ++rank)
            work_left_.push_back(micro_batches_ * model.work(rank));
    }

    std::optional<std::vector<std::vector<Action>>> run() {
        branch();
        if (best_.empty()) return std::nullopt;
        std::vector<std::vector<Action>> ranks(at(model_.shape.pp));
        for (const Action& action : best_) ranks[at(model_.rank_of[at(action.stage)])].push_back(action);
        return ranks;
    }

 private:
    struct Start {
        double time;
        Action action;
    };

    std::size_t cell(int stage, int micro_batch) const {
        return at(stage) * at(micro_batches_) + at(micro_batch);
    }
    double free_of(int stage) const { return free_at_[at(model_.rank_of[at(stage)])]; }
    // No branch that only rounding makes shorter.
    bool too_long(double makespan) const { return makespan >= shortest_ * (1 - rounding); }

    void branch() {
        if (nodes_left_-- <= 0) return;
        if (path_.size() == 3 * forward_ends_.size()) {
            const double makespan = *std::max_element(free_at_.begin(), free_at_.end());
            if (too_long(makespan)) return;
            shortest_ = makespan;
            best_ = path_;
            return;
        }
        if (rank_bound() || path_bound() || dominated()) return;
        for (const Start& start : starts()) {
            const double free_before = free_of(start.action.stage), start_before = last_start_;
            place(start);
            branch();
            take_back(start.action, free_before, start_before);
        }
    }

    // ---- bounds

    bool rank_bound() const {
        for (std::size_t rank = 0; rank < free_at_.size(); ++rank)
            if (too_long(free_at_[rank] + work_left_[rank])) return true;
        return false;
    }

    // The way of each micro-batch through the stages, and what its last stages have to do after it.
    bool path_bound() const {
        for (int mb = 0; mb < micro_batches_; ++mb) {
            double time = 0;
            for (int stage = 0; stage < model_.stages; ++stage) {
                time = forwards_[at(stage)] > mb
                           ? forward_ends_[cell(stage, mb)]
                           : std::max(time, free_of(stage)) + model_.duration(ActionKind::F, stage);
                if (stage + 1 < model_.stages) time += model_.transfer(stage, stage + 1);
            }
            for (int stage = model_.stages; stage-- > 0;) {
                const double weight = model_.duration(ActionKind::W, stage);
                if (input_gradients_[at(stage)] > mb) {
                    time = gradient_ends_[cell(stage, mb)];
                } else {
                    time = std::max(time, free_of(stage)) + model_.duration(ActionKind::I, stage);
                    const int later = micro_batches_ - 1 - mb;
                    if (too_long(time + weight + later * model_.duration(ActionKind::B, stage))) return true;
                }
                if (stage > 0) time += model_.transfer(stage, stage - 1);
            }
        }
        return false;
    }

    // Whether the same actions have been placed before with all that matters later no later.
    bool dominated() {
        std::vector<int> counts;
        std::vector<double> times = free_at_;
        times.push_back(path_.empty() ? 0 : last_start_);
        for (int stage = 0; stage < model_.stages; ++stage) {
            counts.insert(counts.end(),
                          {forwards_[at(stage)], input_gradients_[at(stage)], weight_gradients_[at(stage)]});
            // A message in flight, and the one before it in its channel.
            if (stage + 1 < model_.stages)
                for (int mb = std::max(0, forwards_[at(stage + 1)] - 1); mb < forwards_[at(stage)]; ++mb)
                    times.push_back(activation_arrives_[cell(stage + 1, mb)]);
            if (stage > 0)
                for (int mb = std::max(0, input_gradients_[at(stage - 1)] - 1);
                     mb < input_gradients_[at(stage)]; ++mb)
                    times.push_back(gradient_arrives_[cell(stage - 1, mb)]);
        }
        std::vector<std::vector<double>>& before = seen_[counts];
        for (const std::vector<double>& other : before)
            if (std::equal(other.begin(), other.end(), times.begin(),
                           [](double earlier, double later) { return earlier <= later; }))
                return true;
        constexpr std::size_t most_remembered = 64;
        if (before.size() < most_remembered) before.push_back(std::move(times));
        return false;
    }

    // ---- what can be placed next, earliest first

    std::vector<Start> starts() const {
        std::vector<Start> all;
        for (int rank = 0; rank < model_.shape.pp; ++rank) {
            double alive = 0;
            for (const int stage : model_.stages_of[at(rank)])
                alive += (forwards_[at(stage)] - input_gradients_[at(stage)]) * model_.activation(stage) +
                         (input_gradients_[at(stage)] - weight_gradients_[at(stage)]) * model_.waiting(stage);
            const double room = model_.limits[at(rank)] - alive;
            for (const int stage : model_.stages_of[at(rank)]) add_starts(all, stage, room);
        }
        std::stable_sort(all.begin(), all.end(),
                         [](const Start& a, const Start& b) { return a.time < b.time; });
        return all;
    }

    void add_starts(std::vector<Start>& all, int stage, double room) const {
        const auto add = [&](double ready, ActionKind kind, int mb) {
            const double time = std::max(ready, free_of(stage));
            if (time >= last_start_) all.push_back({time, {kind, stage, mb}});
        };
        if (const int mb = forwards_[at(stage)]; mb < micro_batches_ &&
                                                 (stage == 0 || forwards_[at(stage - 1)] > mb) &&
                                                 model_.activation(stage) <= room)
            add(activation_arrives_[cell(stage, mb)], ActionKind::F, mb);
        if (const int mb = input_gradients_[at(stage)];
            mb < forwards_[at(stage)] &&
            (stage == model_.stages - 1 || input_gradients_[at(stage + 1)] > mb) &&
            model_.costs.bytes.output_gradients[at(stage)] <= room)
            add(gradient_arrives_[cell(stage, mb)], ActionKind::I, mb);
        if (const int mb = weight_gradients_[at(stage)]; mb < input_gradients_[at(stage)])
            add(0, ActionKind::W, mb);
    }

    void place(const Start& start) {
        const Action& action = start.action;
        const auto rank = at(model_.rank_of[at(action.stage)]);
        const double duration = model_.duration(action.kind, action.stage), end = start.time + duration;
        path_.push_back(action);
        free_at_[rank] = end;
        work_left_[rank] -= duration;
        last_start_ = start.time;
        const std::size_t here = cell(action.stage, action.micro_batch);
        ++count(action.kind)[at(action.stage)];
        if (action.kind == ActionKind::F) {
            forward_ends_[here] = end;
            send(activation_arrives_, action, action.stage + 1, end);
        } else if (action.kind == ActionKind::I) {
            gradient_ends_[here] = end;
            send(gradient_arrives_, action, action.stage - 1, end);
        }
    }

    void take_back(const Action& action, double free_before, double start_before) {
        const auto rank = at(model_.rank_of[at(action.stage)]);
        path_.pop_back();
        free_at_[rank] = free_before;
        work_left_[rank] += model_.duration(action.kind, action.stage);
        last_start_ = start_before;
        --count(action.kind)[at(action.stage)];
    }

    std::vector<int>& count(ActionKind kind) {
        return kind == ActionKind::F   ? forwards_
               : kind == ActionKind::I ? input_gradients_
                                       : weight_gradients_;
    }

    void send(std::vector<double>& arrives, const Action& action, int to_stage, double ready) {
        if (to_stage < 0 || to_stage >= model_.stages) return;
        const double transfer = model_.transfer(action.stage, to_stage);
        const std::size_t message = cell(to_stage, action.micro_batch);
        if (transfer > 0 && action.micro_batch > 0) ready = std::max(ready, arrives[message - 1]);
        arrives[message] = ready + transfer;
    }

    const PlacedModel& model_;
    int micro_batches_;
    double shortest_;
    std::int64_t nodes_left_;
    std::vector<int> forwards_, input_gradients_, weight_gradients_;  // placed, per stage
    // Per stage and micro-batch; of what is not placed without meaning.
    std::vector<double> forward_ends_, activation_arrives_, gradient_arrives_, gradient_ends_;
    std::vector<double> free_at_, work_left_;  // per rank
    double last_start_ = 0;
    std::vector<Action> path_, best_;
    std::map<std::vector<int>, std::vector<std::vector<double>>> seen_;
};

}  // namespace

std::optional<std::vector<std::vector<Action>>> shorter_order(const PlacedModel& model, double than,
                                                              std::int64_t most_nodes) {
    return BranchAndBound(model, than, most_nodes).run();
}

}  // namespace escalier::schedule::generators
