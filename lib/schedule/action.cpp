#include "schedule/action.h"

#include "core/check.h"

namespace escalier::schedule {

std::string cell(const Action& action) {
    constexpr char letters[] = {'F', 'B', 'I', 'W'};
    return std::to_string(action.stage) + letters[static_cast<int>(action.kind)] +
           std::to_string(action.micro_batch);
}

int Schedule::rank_of(int stage) const {
    ESCALIER_CHECK(stage >= 0 && stage < stages(), "stage " + std::to_string(stage) + " does not exist");
    const int place = stage % pp;
    if (placement == Placement::loop) return place;
    const bool downwards = stage / pp % 2 == 0;
    return downwards ? place : pp - 1 - place;
}

bool Schedule::has_split_backward() const {
    for (const auto& rank : ranks)
        for (const Action& action : rank)
            if (action.kind == ActionKind::I || action.kind == ActionKind::W) return true;
    return false;
}

}  // namespace escalier::schedule
