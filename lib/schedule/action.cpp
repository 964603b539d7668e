#include "schedule/action.h"

#include "core/check.h"

namespace escalier::schedule {

std::string cell(const Action& action) {
    constexpr char letters[] = {'F', 'B', 'I', 'W'};
    return std::to_string(action.stage) + letters[static_cast<int>(action.kind)] +
           std::to_string(action.micro_batch);
}

int Schedule::rank_of(int stage, int copy) const {
    ESCALIER_CHECK(stage >= 0 && stage < stages() && copy >= 0 && copy < copies(),
                   "stage " + std::to_string(stage) + " does not exist");
    const int position = stage % pp;
    if (placement == Placement::loop) return position;
    const bool downwards = placement == Placement::v ? stage / pp % 2 == 0 : copy == 0;
    return downwards ? position : pp - 1 - position;
}

bool Schedule::has_split_backward() const {
    for (const auto& rank : ranks)
        for (const Action& action : rank)
            if (action.kind == ActionKind::I || action.kind == ActionKind::W) return true;
    return false;
}

bool Schedule::has_overlaps() const {
    for (const auto& rank : ranks)
        for (const Action& action : rank)
            if (action.overlaps_next) return true;
    return false;
}

Schedule flattened(Schedule schedule) {
    for (auto& rank : schedule.ranks)
        for (Action& action : rank) action.overlaps_next = false;
    return schedule;
}

}  // namespace escalier::schedule
