#include "schedule/prove.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/error.h"
#include "golden.h"
#include "replay.h"
#include "schedule/generators.h"
#include "schedule/lower.h"

namespace escalier::schedule {
namespace {

using Key = std::tuple<ActionKind, int, int>;

// Exactly once, on the right rank, by counting; then runs whatever can run, rank by rank, until nothing can.
bool holds_by_brute_force(const Schedule& schedule) {
    std::map<Key, int> count;
    for (int rank = 0; rank < schedule.pp; ++rank)
        for (const Action& a : schedule.ranks[static_cast<std::size_t>(rank)]) {
            if (a.stage < 0 || a.stage >= schedule.stages() || schedule.rank_of(a.stage) != rank)
                return false;
            if (a.micro_batch < 0 || a.micro_batch >= schedule.micro_batches) return false;
            ++count[{a.kind, a.stage, a.micro_batch}];
        }
    for (int s = 0; s < schedule.stages(); ++s)
        for (int m = 0; m < schedule.micro_batches; ++m) {
            const int f = count[{ActionKind::F, s, m}], b = count[{ActionKind::B, s, m}];
            const int i = count[{ActionKind::I, s, m}], w = count[{ActionKind::W, s, m}];
            if (f != 1 || b + i != 1 || b + w != 1) return false;
        }
    std::set<Key> done;
    const auto ready = [&](const Action& a) {
        const auto backward_done = [&](int stage) {
            return done.count({ActionKind::B, stage, a.micro_batch}) +
                       done.count({ActionKind::I, stage, a.micro_batch}) >
                   0;
        };
        if (a.kind == ActionKind::F)
            return a.stage == 0 || done.count({ActionKind::F, a.stage - 1, a.micro_batch}) > 0;
        if (a.kind == ActionKind::W) return done.count({ActionKind::I, a.stage, a.micro_batch}) > 0;
        return done.count({ActionKind::F, a.stage, a.micro_batch}) > 0 &&
               (a.stage + 1 == schedule.stages() || backward_done(a.stage + 1));
    };
    std::vector<std::size_t> next(schedule.ranks.size());
    for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t r = 0; r < next.size(); ++r)
            while (next[r] < schedule.ranks[r].size() && ready(schedule.ranks[r][next[r]])) {
                const Action& a = schedule.ranks[r][next[r]++];
                done.insert({a.kind, a.stage, a.micro_batch});
                moved = true;
            }
    }
    for (std::size_t r = 0; r < next.size(); ++r)
        if (next[r] != schedule.ranks[r].size()) return false;
    return true;
}

// Alive at a moment: its F has come, its `last` (or B) has not.
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

bool ascends_by_brute_force(const Schedule& schedule, int stage) {
    std::vector<int> order;
    for (const Action& a : schedule.ranks[static_cast<std::size_t>(schedule.rank_of(stage))])
        if (a.stage == stage && (a.kind == ActionKind::B || a.kind == ActionKind::W))
            order.push_back(a.micro_batch);
    return std::is_sorted(order.begin(), order.end());
}

struct Tally {
    int accepted = 0, refused = 0;
};

void judge(const Schedule& schedule, Tally& tally) {
    const bool expected = holds_by_brute_force(schedule);
    ++(expected ? tally.accepted : tally.refused);
    try {
        const std::vector<Program> programs = lower(schedule);
        const Proof proof = prove(schedule, programs);
        EXPECT_TRUE(expected) << "accepted wrongly";
        for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
            EXPECT_EQ(proof.peak_until_weight[r], peak_by_brute_force(schedule.ranks[r], ActionKind::W));
            EXPECT_EQ(proof.peak_until_input[r], peak_by_brute_force(schedule.ranks[r], ActionKind::I));
        }
        bool all = true;
        for (int stage = 0; stage < schedule.stages(); ++stage) {
            EXPECT_EQ(proof.ascending[static_cast<std::size_t>(stage)],
                      ascends_by_brute_force(schedule, stage));
            all = all && ascends_by_brute_force(schedule, stage);
        }
        EXPECT_EQ(proof.exact, all);
        const ReplayResult result = replay(schedule, programs);
        EXPECT_TRUE(result.completed) << "the program of an accepted schedule hangs";
        EXPECT_EQ(result.fault, "");
    } catch (const ConfigError& error) {
        EXPECT_FALSE(expected) << "refused wrongly: " << error.what();
    }
}

// Every swap, drop, duplication, change of kind and move to another rank of every action.
Tally judge_every_mutation(const Schedule& valid) {
    Tally tally;
    for (std::size_t r = 0; r < valid.ranks.size(); ++r) {
        const std::size_t length = valid.ranks[r].size();
        for (std::size_t i = 0; i < length; ++i) {
            const auto mutate = [&](const std::string& what, auto change) {
                Schedule mutant = valid;
                change(mutant.ranks[r]);
                SCOPED_TRACE(valid.kind + " rank " + std::to_string(r) + " " + what + " " +
                             cell(valid.ranks[r][i]));
                judge(mutant, tally);
            };
            const auto at = static_cast<std::ptrdiff_t>(i);
            for (std::size_t j = i + 1; j < length; ++j)
                mutate("swap with " + cell(valid.ranks[r][j]),
                       [&](std::vector<Action>& actions) { std::swap(actions[i], actions[j]); });
            mutate("drop", [&](std::vector<Action>& actions) { actions.erase(actions.begin() + at); });
            mutate("double", [&](std::vector<Action>& actions) {
                actions.insert(actions.begin() + at, Action(actions[i]));
            });
            mutate("repeat at the end",
                   [&](std::vector<Action>& actions) { actions.push_back(Action(actions[i])); });
            for (const ActionKind kind : {ActionKind::F, ActionKind::B, ActionKind::I, ActionKind::W})
                mutate("as another kind", [&](std::vector<Action>& actions) { actions[i].kind = kind; });
            mutate("next micro-batch", [&](std::vector<Action>& actions) { ++actions[i].micro_batch; });
            mutate("next stage", [&](std::vector<Action>& actions) { ++actions[i].stage; });
            mutate("split B", [&](std::vector<Action>& actions) {
                if (actions[i].kind != ActionKind::B) return;
                actions[i].kind = ActionKind::I;
                actions.push_back({ActionKind::W, actions[i].stage, actions[i].micro_batch});
            });
        }
    }
    return tally;
}

TEST(Prove, EveryMutationIsJudgedAsByBruteForce) {
    std::vector<Schedule> valid;
    for (const auto& [pp, m] : {std::pair{1, 3}, {2, 1}, {2, 3}, {3, 2}, {3, 4}, {4, 3}}) {
        valid.push_back(generate({"1f1b", pp, 1, m}));
        valid.push_back(generate({"gpipe", pp, 1, m}));
        valid.push_back(generate({"gpipe", pp, 1, m, BackwardOrder::lifo}));
    }
    for (const char* file : {"zbh1_P2_V1_M4.csv", "zbv_P2_V2_M4.csv", "interleaved_P2_V2_M4.csv",
                             "interleaved_P1_V3_M4.csv", "zbh1_P4_V1_M2.csv"})
        valid.push_back(read_order(file));
    for (const Schedule& schedule : valid) {
        const Tally tally = judge_every_mutation(schedule);
        EXPECT_GT(tally.accepted, 0);
        EXPECT_GT(tally.refused, 0);
    }
}

// The hazard that the lowered programs avoid: receive, compute, blocking send, in this order.
TEST(Prove, NaiveBlockingSendsHangWhereTheyAreKnownTo) {
    const auto completes = [](const Schedule& schedule) {
        return replay(schedule, receive_late(lower(schedule)), {true, 1}).completed;
    };
    for (int pp = 1; pp <= 5; ++pp) {
        for (int m = 1; m <= 8; ++m) {
            EXPECT_TRUE(completes(generate({"gpipe", pp, 1, m})));
            EXPECT_TRUE(completes(generate({"gpipe", pp, 1, m, BackwardOrder::lifo})));
            EXPECT_EQ(completes(generate({"1f1b", pp, 1, m})), pp == 1 || m == 1) << pp << " " << m;
        }
    }
    for (const char* file : {"zbh1_P4_V1_M8.csv", "zbv_P4_V2_M8.csv", "interleaved_P4_V2_M8.csv",
                             "interleaved_zb_P4_V2_M8.csv", "looped_bfs_P3_V2_M7.csv"})
        EXPECT_FALSE(completes(read_order(file))) << file;
    EXPECT_TRUE(completes(read_order("zbh1_P1_V1_M4.csv")));
}

std::string refusal(const Schedule& schedule) {
    try {
        prove(schedule);
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "";
}

TEST(Prove, ACircleIsNamedWithRanksAndActions) {
    Schedule schedule;
    schedule.kind = "own";
    schedule.pp = 2;
    schedule.micro_batches = 2;
    // Rank 0 wants the gradient of micro-batch 0 before it sends micro-batch 1, rank 1 the other way round.
    schedule.ranks = {
        {{ActionKind::F, 0, 0}, {ActionKind::B, 0, 0}, {ActionKind::F, 0, 1}, {ActionKind::B, 0, 1}},
        {{ActionKind::F, 1, 0}, {ActionKind::F, 1, 1}, {ActionKind::B, 1, 0}, {ActionKind::B, 1, 1}}};
    EXPECT_EQ(
        refusal(schedule),
        "schedule `own` never ends, because its actions wait for one another: rank 0 waits in 0B0 for the "
        "gradient of 1B0 from rank 1; rank 1 runs 1B0 after 1F1; rank 1 waits in 1F1 for the activation of "
        "0F1 from rank 0; rank 0 runs 0F1 after 0B0; reorder these actions");
}

TEST(Prove, AnIncompleteScheduleIsNamedByItsAction) {
    const Schedule valid = generate({"1f1b", 2, 1, 2});
    Schedule schedule = valid;
    schedule.ranks[1].pop_back();
    EXPECT_EQ(refusal(schedule), "schedule `1f1b`, rank 1: 1B1 (or I and W) is missing");
    schedule = valid;
    schedule.ranks[0].push_back({ActionKind::F, 0, 1});
    EXPECT_EQ(refusal(schedule), "schedule `1f1b`, rank 0, action 4 (0F1): it comes a second time");
    schedule = valid;
    schedule.ranks[0][0].stage = 1;
    EXPECT_EQ(refusal(schedule), "schedule `1f1b`, rank 0, action 0 (1F0): stage 1 lives on rank 1");
    schedule = valid;
    std::swap(schedule.ranks[1][0], schedule.ranks[1][1]);
    EXPECT_EQ(refusal(schedule), "schedule `1f1b`, rank 1, action 0 (1B0): 1F0 must come before it");
    EXPECT_NE(refusal(forward_only(valid)), "");
}

}  // namespace
}  // namespace escalier::schedule
