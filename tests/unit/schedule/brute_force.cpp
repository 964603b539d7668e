#include "brute_force.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace escalier::schedule {
namespace {

using Key = std::tuple<ActionKind, int, int>;

// Two copies run bottom-up on rank P - 1 - stage; the second has the larger half of the micro-batches.
bool in_second_copy(const Schedule& schedule, const Action& a) {
    return schedule.placement == Placement::bidirectional && a.micro_batch >= schedule.micro_batches / 2;
}

int home(const Schedule& schedule, const Action& a) {
    const int turn = a.stage / schedule.pp, position = a.stage % schedule.pp;
    const bool up = schedule.placement == Placement::v ? turn % 2 == 1 : in_second_copy(schedule, a);
    return up ? schedule.pp - 1 - position : position;
}

bool counts_are_right(const Schedule& schedule) {
    std::map<Key, int> count;
    for (int rank = 0; rank < schedule.pp; ++rank)
        for (const Action& a : schedule.ranks[static_cast<std::size_t>(rank)]) {
            if (a.stage < 0 || a.stage >= schedule.stages() || a.micro_batch < 0 ||
                a.micro_batch >= schedule.micro_batches || home(schedule, a) != rank)
                return false;
            ++count[{a.kind, a.stage, a.micro_batch}];
        }
    for (int s = 0; s < schedule.stages(); ++s)
        for (int m = 0; m < schedule.micro_batches; ++m) {
            const int f = count[{ActionKind::F, s, m}], b = count[{ActionKind::B, s, m}];
            const int i = count[{ActionKind::I, s, m}], w = count[{ActionKind::W, s, m}];
            if (f != 1 || b + i != 1 || b + w != 1) return false;
        }
    return true;
}

// F, then B of another stage (or of the same stage of the other copy).
bool pairs_are_right(const Schedule& schedule) {
    for (const auto& actions : schedule.ranks)
        for (std::size_t i = 0; i < actions.size(); ++i) {
            if (!actions[i].overlaps_next) continue;
            if (i + 1 == actions.size()) return false;
            const Action &f = actions[i], &b = actions[i + 1];
            if (f.kind != ActionKind::F || b.kind != ActionKind::B || b.overlaps_next) return false;
            if (f.stage == b.stage && in_second_copy(schedule, f) == in_second_copy(schedule, b))
                return false;
        }
    return true;
}

bool ready(const Schedule& schedule, const std::set<Key>& done, const Action& a) {
    const auto has = [&](ActionKind kind, int stage) { return done.count({kind, stage, a.micro_batch}) > 0; };
    if (a.kind == ActionKind::F) return a.stage == 0 || has(ActionKind::F, a.stage - 1);
    if (a.kind == ActionKind::W) return has(ActionKind::I, a.stage);
    return has(ActionKind::F, a.stage) &&
           (a.stage + 1 == schedule.stages() || has(ActionKind::B, a.stage + 1) ||
            has(ActionKind::I, a.stage + 1));
}

}  // namespace

bool holds_by_brute_force(const Schedule& schedule) {
    if (!counts_are_right(schedule) || !pairs_are_right(schedule)) return false;
    std::set<Key> done;
    std::vector<std::size_t> next(schedule.ranks.size());
    // Runs the next action, or pair, if it can.
    const auto step = [&](std::size_t rank) {
        const auto& actions = schedule.ranks[rank];
        if (next[rank] == actions.size()) return false;
        const std::size_t end = next[rank] + (actions[next[rank]].overlaps_next ? 2 : 1);
        for (std::size_t i = next[rank]; i < end; ++i)
            if (!ready(schedule, done, actions[i])) return false;
        for (; next[rank] < end; ++next[rank]) {
            const Action& a = actions[next[rank]];
            done.insert({a.kind, a.stage, a.micro_batch});
        }
        return true;
    };
    for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t rank = 0; rank < next.size(); ++rank)
            while (step(rank)) moved = true;
    }
    for (std::size_t rank = 0; rank < next.size(); ++rank)
        if (next[rank] != schedule.ranks[rank].size()) return false;
    return true;
}

int peak_by_brute_force(const std::vector<Action>& actions, ActionKind last) {
    std::size_t most = 0;
    std::set<std::pair<int, int>> alive;
    for (const Action& a : actions) {
        if (a.kind == ActionKind::F) alive.insert({a.stage, a.micro_batch});
        most = std::max(most, alive.size());
        if (a.kind == last || a.kind == ActionKind::B) alive.erase({a.stage, a.micro_batch});
    }
    return static_cast<int>(most);
}

std::vector<bool> ascends_by_brute_force(const Schedule& schedule) {
    std::vector<bool> ascends;
    for (int copy = 0; copy < schedule.copies(); ++copy)
        for (int stage = 0; stage < schedule.stages(); ++stage) {
            std::vector<int> forwards, input_halves, weight_halves;
            for (const auto& actions : schedule.ranks)
                for (const Action& a : actions) {
                    if (a.stage != stage || in_second_copy(schedule, a) != (copy == 1)) continue;
                    if (a.kind == ActionKind::F) forwards.push_back(a.micro_batch);
                    if (a.kind == ActionKind::B || a.kind == ActionKind::I)
                        input_halves.push_back(a.micro_batch);
                    if (a.kind == ActionKind::B || a.kind == ActionKind::W)
                        weight_halves.push_back(a.micro_batch);
                }
            const bool head_in_order =
                stage + 1 < schedule.stages() || std::is_sorted(forwards.begin(), forwards.end());
            ascends.push_back(head_in_order && std::is_sorted(input_halves.begin(), input_halves.end()) &&
                              std::is_sorted(weight_halves.begin(), weight_halves.end()));
        }
    return ascends;
}

}  // namespace escalier::schedule
