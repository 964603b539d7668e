#include "schedule/check.h"

#include "core/error.h"
#include "core/limits.h"

namespace escalier::schedule {
namespace {

constexpr int kind_count = 4;

class Completeness {
 public:
    explicit Completeness(const Schedule& schedule)
        : schedule_(schedule),
          seen_(static_cast<std::size_t>(kind_count) * static_cast<std::size_t>(schedule.stages()) *
                static_cast<std::size_t>(schedule.micro_batches)) {}

    void take(int rank, std::size_t position, const Action& action) {
        rank_ = rank;
        position_ = position;
        current_ = &action;
        if (action.stage < 0 || action.stage >= schedule_.stages())
            refuse("there are stages 0 to " + std::to_string(schedule_.stages() - 1));
        if (action.micro_batch < 0 || action.micro_batch >= schedule_.micro_batches)
            refuse("there are micro-batches 0 to " + std::to_string(schedule_.micro_batches - 1));
        if (const int home = schedule_.rank_of(action); home != rank)
            refuse("stage " + std::to_string(action.stage) + " lives on rank " + std::to_string(home));
        if (has(action.kind, action)) refuse("it comes a second time");
        switch (action.kind) {
            case ActionKind::F:
                break;
            case ActionKind::B:
                need(ActionKind::F, action);
                if (has(ActionKind::I, action)) refuse("this backward is already done in halves, I and W");
                break;
            case ActionKind::I:
                need(ActionKind::F, action);
                if (has(ActionKind::B, action)) refuse("this backward is already done as a whole, B");
                break;
            case ActionKind::W:
                if (has(ActionKind::B, action)) refuse("this backward is already done as a whole, B");
                need(ActionKind::I, action);
                break;
        }
        seen_[index(action.kind, action)] = true;
    }

    // An overlapped pair is F with B of another chunk, both whole.
    void pair(const std::vector<Action>& actions, std::size_t position) {
        const Action& first = actions[position];
        if (position + 1 == actions.size()) refuse("it overlaps the next action, but there is none");
        const Action& second = actions[position + 1];
        if (first.kind != ActionKind::F || second.kind != ActionKind::B || second.overlaps_next)
            refuse("it overlaps " + cell(second) + "; a pair is one F and one B after it");
        if (schedule_.place_of(first) == schedule_.place_of(second))
            refuse("it overlaps " + cell(second) + " of the same stage; a pair is of two chunks");
    }

    void finish(Pass pass) {
        current_ = nullptr;
        for (int stage = 0; stage < schedule_.stages(); ++stage) {
            for (int mb = 0; mb < schedule_.micro_batches; ++mb) {
                const Action action{ActionKind::F, stage, mb};
                rank_ = schedule_.rank_of(action);
                if (!has(ActionKind::F, action)) refuse(cell(action) + " is missing");
                if (pass == Pass::forward || has(ActionKind::B, action)) continue;
                if (!has(ActionKind::I, action))
                    refuse(cell({ActionKind::B, stage, mb}) + " (or I and W) is missing");
                if (!has(ActionKind::W, action)) refuse(cell({ActionKind::W, stage, mb}) + " is missing");
            }
        }
    }

 private:
    std::size_t index(ActionKind kind, const Action& action) const {
        return (static_cast<std::size_t>(kind) * static_cast<std::size_t>(schedule_.stages()) +
                static_cast<std::size_t>(action.stage)) *
                   static_cast<std::size_t>(schedule_.micro_batches) +
               static_cast<std::size_t>(action.micro_batch);
    }
    bool has(ActionKind kind, const Action& action) const { return seen_[index(kind, action)]; }
    void need(ActionKind kind, const Action& action) const {
        if (!has(kind, action))
            refuse(cell({kind, action.stage, action.micro_batch}) + " must come before it");
    }
    [[noreturn]] void refuse(const std::string& why) const {
        throw IncompleteSchedule(schedule_, rank_, current_ == nullptr ? -1 : static_cast<int>(position_),
                                 why);
    }

    const Schedule& schedule_;
    std::vector<bool> seen_;
    int rank_ = 0;
    std::size_t position_ = 0;
    const Action* current_ = nullptr;
};

std::string place_text(const Schedule& schedule, int rank, int position) {
    std::string place = "schedule `" + schedule.kind + "`, rank " + std::to_string(rank);
    if (position < 0) return place;
    const Action& action = schedule.ranks[static_cast<std::size_t>(rank)][static_cast<std::size_t>(position)];
    return place + ", action " + std::to_string(position) + " (" + cell(action) + ")";
}

}  // namespace

IncompleteSchedule::IncompleteSchedule(const Schedule& schedule, int rank, int position,
                                       const std::string& why)
    : ConfigError(place_text(schedule, rank, position) + ": " + why),
      rank(rank),
      position(position),
      why(why) {}

Pass pass_of(const Schedule& schedule) {
    for (const auto& actions : schedule.ranks)
        for (const Action& action : actions)
            if (action.kind != ActionKind::F) return Pass::training;
    return Pass::forward;
}

void check_size(int pp, int chunks, int micro_batches) {
    const auto at_least_one = [](int value, const std::string& what) {
        if (value < 1)
            throw ConfigError("a schedule needs at least one " + what + ", found " + std::to_string(value));
    };
    at_least_one(pp, "pipeline rank");
    at_least_one(chunks, "chunk per rank");
    at_least_one(micro_batches, "micro-batch");
    const auto stages = static_cast<std::int64_t>(pp) * chunks;
    if (stages > most_schedule_cells / micro_batches)
        throw ConfigError("a schedule of " + std::to_string(stages) + " stages and " +
                          std::to_string(micro_batches) + " micro-batches is larger than " +
                          std::to_string(most_schedule_cells) + " in all; use fewer of either");
}

void check_complete(const Schedule& schedule, Pass pass) {
    check_size(schedule.pp, schedule.chunks, schedule.micro_batches);
    if (schedule.ranks.size() != static_cast<std::size_t>(schedule.pp))
        throw ConfigError("schedule `" + schedule.kind + "` has rows for " +
                          std::to_string(schedule.ranks.size()) + " ranks, expected " +
                          std::to_string(schedule.pp));
    if (schedule.copies() == 2 && (schedule.chunks != 2 || schedule.micro_batches < 2))
        throw ConfigError(
            "schedule `" + schedule.kind +
            "` with two copies of the model needs chunks 2 and at least 2 micro-batches, found " +
            std::to_string(schedule.chunks) + " and " + std::to_string(schedule.micro_batches));
    Completeness completeness(schedule);
    for (int rank = 0; rank < schedule.pp; ++rank) {
        const auto& actions = schedule.ranks[static_cast<std::size_t>(rank)];
        for (std::size_t i = 0; i < actions.size(); ++i) {
            completeness.take(rank, i, actions[i]);
            if (actions[i].overlaps_next) completeness.pair(actions, i);
        }
    }
    completeness.finish(pass);
}

}  // namespace escalier::schedule
