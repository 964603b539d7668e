#include "schedule/prove.h"

#include <algorithm>

#include "schedule/check.h"
#include "schedule/event_graph.h"
#include "schedule/lower.h"
#include "schedule/walk.h"

namespace escalier::schedule {
namespace {

// Most activations alive on a rank at once when those of a micro-batch die with `last` (or B).
int peak(const std::vector<Action>& actions, ActionKind last) {
    int alive = 0, most = 0;
    for (const Action& action : actions) {
        if (action.kind == ActionKind::F) most = std::max(most, ++alive);
        if (action.kind == last || action.kind == ActionKind::B) --alive;
    }
    return most;
}

std::vector<bool> ascending_places(const Schedule& schedule) {
    std::vector<bool> ascending(static_cast<std::size_t>(schedule.places()), true);
    constexpr std::size_t kinds = 3;  // F, I, W; B is I and W
    std::vector<int> latest(kinds * ascending.size(), -1);
    for (const auto& actions : schedule.ranks) {
        for (const Action& action : actions) {
            const auto place = static_cast<std::size_t>(schedule.place_of(action));
            const auto follows = [&](std::size_t kind) {
                int& before = latest[kinds * place + kind];
                if (action.micro_batch < before) ascending[place] = false;
                before = action.micro_batch;
            };
            if (action.kind == ActionKind::F && action.stage == schedule.stages() - 1) follows(0);
            if (is_input_half(action.kind)) follows(1);
            if (is_weight_half(action.kind)) follows(2);
        }
    }
    return ascending;
}

}  // namespace

Proof prove(const Schedule& schedule, const std::vector<Program>& programs) {
    check_complete(schedule, Pass::training);
    const Walk walked = walk(schedule, programs, Durations::uniform(schedule.stages(), 1, 1, 1, 0));
    if (!walked.complete) EventGraph(schedule, programs).refuse_cycle(schedule.kind);
    Proof proof;
    for (const auto& actions : schedule.ranks) {
        proof.peak_until_weight.push_back(peak(actions, ActionKind::W));
        proof.peak_until_input.push_back(peak(actions, ActionKind::I));
    }
    proof.ascending = ascending_places(schedule);
    proof.exact = schedule.copies() == 1 &&
                  std::find(proof.ascending.begin(), proof.ascending.end(), false) == proof.ascending.end();
    proof.messages = walked.messages;
    return proof;
}

Proof prove(const Schedule& schedule) {
    check_complete(schedule, Pass::training);
    return prove(schedule, lower(schedule));
}

}  // namespace escalier::schedule
