#include "schedule/generators/list_scheduler.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <queue>

#include "core/check.h"

namespace escalier::schedule::generators {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

std::size_t at(int i) {
    return static_cast<std::size_t>(i);
}

// Whether memory lets an action start: at once, once waiting W's have run, or not yet.
enum class Room : std::uint8_t { now, after_weights, none };

struct Candidate {
    ActionKind kind = ActionKind::F;
    int stage = -1;
    double key = never;
    Room room = Room::none;
};

struct WakeUp {
    double time;
    int rank;
    bool operator>(const WakeUp& other) const {
        return time != other.time ? time > other.time : rank > other.rank;
    }
};

}  // namespace

class ListScheduler::Run {
 public:
    explicit Run(const PlacedModel& model)
        : model_(model), micro_batches_(model.shape.micro_batches), ranks(at(model.shape.pp)) {}

    double run(const Guide& guide, double give_up) {
        reset(guide);
        std::size_t left = 3 * at(model_.stages) * at(micro_batches_);
        double makespan = 0;
        while (!wake_ups_.empty()) {
            const WakeUp next = wake_ups_.top();
            wake_ups_.pop();
            if (free_at_[at(next.rank)] > next.time) continue;
            if (next.time + work_left_[at(next.rank)] > give_up) return never;
            const std::optional<Action> action = choose(next.rank, next.time);
            if (!action) {
                if (waits_until_ > next.time && waits_until_ < never)
                    wake_ups_.push({waits_until_, next.rank});
                continue;
            }
            makespan = std::max(makespan, start(next.rank, next.time, *action));
            --left;
        }
        ESCALIER_CHECK(left == 0, "a list scheduler stopped before the end");
        return makespan;
    }

 private:
    void reset(const Guide& guide) {
        const std::size_t stages = at(model_.stages), cells = stages * at(micro_batches_);
        const std::size_t pp = at(model_.shape.pp);
        guide_ = &guide;
        forwards_.assign(stages, 0);
        input_gradients_.assign(stages, 0);
        weight_gradients_.assign(stages, 0);
        activation_arrives_.assign(cells, never);
        gradient_arrives_.assign(cells, never);
        std::fill_n(activation_arrives_.begin(), micro_batches_, 0);
        std::fill_n(gradient_arrives_.end() - micro_batches_, micro_batches_, 0);
        free_at_.assign(pp, 0);
        work_left_.assign(pp, 0);
        times_.forward.resize(cells);
        times_.input_gradient.resize(cells);
        times_.weight_gradient.resize(cells);
        wake_ups_ = {};
        for (int rank = 0; rank < model_.shape.pp; ++rank) {
            ranks[at(rank)].clear();
            work_left_[at(rank)] = micro_batches_ * model_.work(rank);
            wake_ups_.push({0, rank});
        }
    }

    std::size_t index(int stage, int micro_batch) const {
        return at(stage) * at(micro_batches_) + at(micro_batch);
    }
    double limit(int rank) const { return model_.limits[at(rank)]; }

    // Bytes of micro-batches after `micro_batch` between F and I.
    double held_after(int rank, int micro_batch) const {
        double bytes = 0;
        for (const int stage : model_.stages_of[at(rank)]) {
            const int count = forwards_[at(stage)] - std::max(input_gradients_[at(stage)], micro_batch + 1);
            if (count > 0) bytes += count * model_.activation(stage);
        }
        return bytes;
    }
    double waiting(int rank) const {
        double bytes = 0;
        for (const int stage : model_.stages_of[at(rank)])
            bytes += (input_gradients_[at(stage)] - weight_gradients_[at(stage)]) * model_.waiting(stage);
        return bytes;
    }
    Room room_for(int rank, double bytes) const {
        const double held = held_after(rank, -1) + bytes;
        if (held > limit(rank)) return Room::none;
        return held + waiting(rank) > limit(rank) ? Room::after_weights : Room::now;
    }

    // After F of this micro-batch, those before it can still be finished in turn. Among micro-batches with
    // the same stages still ahead, the oldest has most bytes behind it.
    bool older_can_finish(int stage, int micro_batch) const {
        const int rank = model_.rank_of[at(stage)];
        const auto& stages = model_.stages_of[at(rank)];
        for (const int ahead : stages) {
            const int oldest = input_gradients_[at(ahead)];
            if (oldest >= micro_batch) continue;
            std::size_t last = stages.size();
            while (input_gradients_[at(stages[last - 1])] > oldest) --last;
            if (held_after(rank, oldest) + model_.activation(stage) + model_.need_from[at(stages[last - 1])] >
                limit(rank))
                return false;
        }
        return true;
    }

    Room room_for_forward(int stage, int micro_batch) const {
        const int rank = model_.rank_of[at(stage)];
        if (limit(rank) == never) return Room::now;
        const Room room = room_for(rank, model_.activation(stage));
        return room != Room::none && older_can_finish(stage, micro_batch) ? room : Room::none;
    }
    Room room_for_input_gradient(int stage) const {
        const int rank = model_.rank_of[at(stage)];
        if (limit(rank) == never) return Room::now;
        return room_for(rank, model_.costs.bytes.output_gradients[at(stage)]);
    }

    // What the choice of a rank is among: by key, with and without regard to memory that W's would free.
    struct Choice {
        Candidate first, first_with_room;
        double next_arrival = never;        // of anything that memory has room for
        double first_arrival = never;       // of the first by key among these
        double first_arriving_key = never;  // its key
    };

    void consider(Choice& choice, const Candidate& candidate, double arrival, double now) const {
        if (candidate.room == Room::none) return;
        if (arrival > now) {
            choice.next_arrival = std::min(choice.next_arrival, arrival);
            if (candidate.key < choice.first_arriving_key) {
                choice.first_arriving_key = candidate.key;
                choice.first_arrival = arrival;
            }
            return;
        }
        if (candidate.key < choice.first.key) choice.first = candidate;
        if (candidate.room == Room::now && candidate.key < choice.first_with_room.key)
            choice.first_with_room = candidate;
    }

    // The smallest key of the rank's next F's (or I's), if only that one may run.
    double strict_key(int rank, const std::vector<double>& keys, const std::vector<int>& done) const {
        double first = never;
        for (const int stage : model_.stages_of[at(rank)])
            if (done[at(stage)] < micro_batches_)
                first = std::min(first, keys[index(stage, done[at(stage)])]);
        return first;
    }

    Choice look(int rank, double now) const {
        Choice choice;
        double most_forward = never, most_backward = never;
        const auto& stages = model_.stages_of[at(rank)];
        if (guide_->strict && stages.size() > 1) {
            most_forward = strict_key(rank, guide_->forward, forwards_);
            most_backward = strict_key(rank, guide_->input_gradient, input_gradients_);
        }
        const int oldest = input_gradients_[at(stages.front())];
        const bool waits = guide_->fill[at(rank)] > 0 || guide_->patience[at(rank)] > 0;
        const double horizon = waits ? never : now;
        for (const int stage : stages) {
            if (const int mb = forwards_[at(stage)]; mb < micro_batches_) {
                const double key = guide_->forward[index(stage, mb)];
                const double arrival = expected(activation_arrives_[index(stage, mb)], key, now);
                if (arrival <= horizon && arrival != never && (key <= most_forward || mb == oldest))
                    consider(choice, {ActionKind::F, stage, key, room_for_forward(stage, mb)}, arrival, now);
            }
            if (const int mb = input_gradients_[at(stage)]; mb < forwards_[at(stage)]) {
                const double key = guide_->input_gradient[index(stage, mb)];
                const double arrival = expected(gradient_arrives_[index(stage, mb)], key, now);
                if (arrival <= horizon && arrival != never && (key <= most_backward || mb == oldest))
                    consider(choice, {ActionKind::I, stage, key, room_for_input_gradient(stage)}, arrival,
                             now);
            }
        }
        if (!guide_->weight_gradient.empty()) consider_weights(choice, rank, now);
        return choice;
    }

    // When a message comes; if nobody knows, when the guide would have its action start.
    double expected(double arrival, double key, double now) const {
        return arrival == never && guide_->foresees && key > now ? key : arrival;
    }

    void consider_weights(Choice& choice, int rank, double now) const {
        for (const int stage : model_.stages_of[at(rank)]) {
            const int mb = weight_gradients_[at(stage)];
            if (mb < input_gradients_[at(stage)])
                consider(choice, {ActionKind::W, stage, guide_->weight_gradient[index(stage, mb)], Room::now},
                         now, now);
        }
    }

    bool has_weight(int rank) const {
        for (const int stage : model_.stages_of[at(rank)])
            if (weight_gradients_[at(stage)] < input_gradients_[at(stage)]) return true;
        return false;
    }
    // The W whose I came first.
    Action next_weight(int rank) const {
        int first = -1;
        double first_time = never;
        for (const int stage : model_.stages_of[at(rank)]) {
            const int mb = weight_gradients_[at(stage)];
            if (mb == input_gradients_[at(stage)]) continue;
            if (const double time = times_.input_gradient[index(stage, mb)]; time < first_time) {
                first = stage;
                first_time = time;
            }
        }
        return {ActionKind::W, first, weight_gradients_[at(first)]};
    }

    int next_of(ActionKind kind, int stage) const {
        return kind == ActionKind::F   ? forwards_[at(stage)]
               : kind == ActionKind::I ? input_gradients_[at(stage)]
                                       : weight_gradients_[at(stage)];
    }

    std::optional<Action> choose(int rank, double now) {
        waits_until_ = never;
        const Choice choice = look(rank, now);
        const bool blocked = choice.first.room == Room::after_weights;
        const Candidate& candidate =
            blocked && guide_->free_memory_first ? choice.first : choice.first_with_room;
        if (candidate.stage >= 0) {
            const double instead =
                guide_->patience[at(rank)] * model_.duration(candidate.kind, candidate.stage);
            if (choice.first_arriving_key < candidate.key && choice.first_arrival - now < instead) {
                waits_until_ = choice.first_arrival;
                return std::nullopt;
            }
            if (candidate.room == Room::after_weights) return next_weight(rank);
            return Action{candidate.kind, candidate.stage, next_of(candidate.kind, candidate.stage)};
        }
        if (!has_weight(rank)) return std::nullopt;
        const Action weight = next_weight(rank);
        const double enough = guide_->fill[at(rank)] * model_.duration(ActionKind::W, weight.stage);
        if (!blocked && choice.next_arrival - now < enough) {
            waits_until_ = choice.next_arrival;
            return std::nullopt;
        }
        return weight;
    }

    // Returns when it ends.
    double start(int rank, double now, const Action& action) {
        const double duration = model_.duration(action.kind, action.stage), end = now + duration;
        ranks[at(rank)].push_back(action);
        free_at_[at(rank)] = end;
        work_left_[at(rank)] -= duration;
        wake_ups_.push({end, rank});
        const std::size_t cell = index(action.stage, action.micro_batch);
        switch (action.kind) {
            case ActionKind::F:
                ++forwards_[at(action.stage)];
                times_.forward[cell] = now;
                send(activation_arrives_, action, action.stage + 1, end);
                break;
            case ActionKind::I:
                ++input_gradients_[at(action.stage)];
                times_.input_gradient[cell] = now;
                send(gradient_arrives_, action, action.stage - 1, end);
                break;
            default:
                ++weight_gradients_[at(action.stage)];
                times_.weight_gradient[cell] = now;
        }
        return end;
    }

    // Messages of one channel move one after the other.
    void send(std::vector<double>& arrives, const Action& action, int to_stage, double ready) {
        if (to_stage < 0 || to_stage >= model_.stages) return;
        const double transfer = model_.transfer(action.stage, to_stage);
        const std::size_t message = index(to_stage, action.micro_batch);
        if (transfer > 0 && action.micro_batch > 0) ready = std::max(ready, arrives[message - 1]);
        arrives[message] = ready + transfer;
        const int to_rank = model_.rank_of[at(to_stage)];
        if (free_at_[at(to_rank)] <= arrives[message]) wake_ups_.push({arrives[message], to_rank});
    }

    const PlacedModel& model_;
    const Guide* guide_ = nullptr;
    int micro_batches_;
    std::vector<int> forwards_, input_gradients_, weight_gradients_;  // done or running, per stage
    std::vector<double> activation_arrives_, gradient_arrives_;       // per stage and micro-batch
    std::vector<double> free_at_, work_left_;                         // per rank
    Guide times_;                                                     // when each action has started
    double waits_until_ = never;                                      // a rank that chose to wait
    std::priority_queue<WakeUp, std::vector<WakeUp>, std::greater<>> wake_ups_;

 public:
    const Guide& times() const { return times_; }
    std::vector<std::vector<Action>> ranks;
};

ListScheduler::ListScheduler(const PlacedModel& model) : run_(std::make_unique<Run>(model)) {}
ListScheduler::~ListScheduler() = default;

double ListScheduler::run(const Guide& guide, double give_up) {
    return run_->run(guide, give_up);
}

const std::vector<std::vector<Action>>& ListScheduler::ranks() const {
    return run_->ranks;
}

void ListScheduler::copy_times(Guide& guide) const {
    guide.forward = run_->times().forward;
    guide.input_gradient = run_->times().input_gradient;
    guide.weight_gradient = run_->times().weight_gradient;
}

}  // namespace escalier::schedule::generators
