// The proof, and the programs that it proves, against brute force: on everything near a valid schedule, and
// on schedules that nobody designed.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "brute_force.h"
#include "core/error.h"
#include "replay.h"
#include "schedule/generators.h"
#include "schedule/lower.h"
#include "schedule/prove.h"

namespace escalier::schedule {
namespace {

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
        const std::vector<bool> ascends = ascends_by_brute_force(schedule);
        EXPECT_EQ(proof.ascending, ascends);
        EXPECT_EQ(proof.exact, schedule.copies() == 1 &&
                                   std::find(ascends.begin(), ascends.end(), false) == ascends.end());
        const ReplayResult result = replay(schedule, programs);
        EXPECT_TRUE(result.completed) << "the program of an accepted schedule hangs";
        EXPECT_EQ(result.fault, "");
    } catch (const ConfigError& error) {
        EXPECT_FALSE(expected) << "refused wrongly: " << error.what();
    }
}

// Every swap, drop, duplication, change of kind, stage, micro-batch and pairing of every action.
Tally judge_every_mutation(const Schedule& valid) {
    Tally tally;
    for (std::size_t r = 0; r < valid.ranks.size(); ++r) {
        const std::size_t length = valid.ranks[r].size();
        for (std::size_t i = 0; i < length; ++i) {
            const auto mutate = [&](const std::string& what, auto change) {
                Schedule mutant = valid;
                change(mutant.ranks[r]);
                SCOPED_TRACE(valid.kind + " P" + std::to_string(valid.pp) + " rank " + std::to_string(r) +
                             " " + what + " " + cell(valid.ranks[r][i]));
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
            mutate("pair", [&](std::vector<Action>& actions) {
                actions[i].overlaps_next = !actions[i].overlaps_next;
            });
            mutate("split B", [&](std::vector<Action>& actions) {
                if (actions[i].kind != ActionKind::B) return;
                actions[i].kind = ActionKind::I;
                actions.push_back({ActionKind::W, actions[i].stage, actions[i].micro_batch});
            });
        }
    }
    return tally;
}

void expect_both_verdicts(const GenerateOptions& options) {
    const Tally tally = judge_every_mutation(generate(options));
    EXPECT_GT(tally.accepted, 0) << options.kind;
    EXPECT_GT(tally.refused, 0) << options.kind;
}

TEST(Property, EveryMutationIsJudgedAsByBruteForce) {
    for (const auto& [pp, m] : {std::pair{1, 3}, {2, 1}, {2, 3}, {3, 2}, {3, 4}, {4, 3}}) {
        for (const char* kind : {"gpipe", "1f1b", "zb-h1", "zb-h2"}) expect_both_verdicts({kind, pp, 1, m});
        expect_both_verdicts({"gpipe", pp, 1, m, BackwardOrder::lifo});
    }
    for (const auto& [pp, m] : {std::pair{1, 2}, {2, 1}, {2, 3}, {3, 2}}) {
        for (const char* kind :
             {"interleaved", "interleaved-zb", "bfs", "zbv", "v-half", "v-min", "dualpipev"})
            expect_both_verdicts({kind, pp, 2, m});
        expect_both_verdicts({"bfs", pp, 2, m, BackwardOrder::lifo});
    }
    for (const char* kind : {"interleaved", "interleaved-zb"}) {
        expect_both_verdicts({kind, 2, 3, 2});
        expect_both_verdicts({.kind = kind, .pp = 2, .chunks = 2, .micro_batches = 3, .group = 2});
    }
    for (const int m : {2, 3, 4}) expect_both_verdicts({"dualpipe", 2, 2, m});
    expect_both_verdicts({"dualpipev", 2, 2, 4});
}

// Draws from what valid schedules there are: any placement and size, B whole or in halves for each stage and
// micro-batch, run in a random order that the dependencies allow.
class RandomSchedule {
 public:
    explicit RandomSchedule(unsigned seed) : random_(seed) {}

    Schedule valid() {
        Schedule schedule;
        schedule.kind = "random";
        schedule.placement = static_cast<Placement>(below(3));
        schedule.pp = 1 + below(4);
        schedule.chunks = schedule.copies() == 2 ? 2 : 1 + below(3);
        schedule.micro_batches = schedule.copies() + below(4);
        schedule.ranks.resize(static_cast<std::size_t>(schedule.pp));
        std::vector<Action> ready;
        for (int m = 0; m < schedule.micro_batches; ++m) ready.push_back({ActionKind::F, 0, m});
        const bool depth_first = below(2) == 0;  // else any order is as likely
        while (!ready.empty()) {
            const int size = static_cast<int>(ready.size());
            const int pick = depth_first ? std::max(below(size), below(size)) : below(size);
            const Action action = ready[static_cast<std::size_t>(pick)];
            ready.erase(ready.begin() + pick);
            append(schedule, action);
            enable(schedule, action, ready);
        }
        return schedule;
    }

    // Two neighbours change places on one rank, or one moves elsewhere.
    void disturb(Schedule& schedule) {
        auto& actions = schedule.ranks[static_cast<std::size_t>(below(schedule.pp))];
        const int size = static_cast<int>(actions.size());
        const int from = below(size), to = below(2) == 0 ? std::min(from + 1, size - 1) : below(size);
        std::swap(actions[static_cast<std::size_t>(from)], actions[static_cast<std::size_t>(to)]);
    }

    // Pairs wherever one may stand; the whole may wait for itself then.
    void pair(Schedule& schedule) {
        for (auto& actions : schedule.ranks)
            for (std::size_t i = 0; i + 1 < actions.size(); ++i)
                if (actions[i].kind == ActionKind::F && actions[i + 1].kind == ActionKind::B &&
                    schedule.place_of(actions[i]) != schedule.place_of(actions[i + 1]))
                    actions[i].overlaps_next = below(2) == 0;
    }

 private:
    int below(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }

    static void append(Schedule& schedule, const Action& action) {
        schedule.ranks[static_cast<std::size_t>(schedule.rank_of(action))].push_back(action);
    }
    void enable(const Schedule& schedule, const Action& done, std::vector<Action>& ready) {
        const auto backward = [&](int stage) {
            ready.push_back({below(2) == 0 ? ActionKind::B : ActionKind::I, stage, done.micro_batch});
        };
        if (done.kind == ActionKind::F && done.stage + 1 < schedule.stages())
            ready.push_back({ActionKind::F, done.stage + 1, done.micro_batch});
        if (done.kind == ActionKind::F && done.stage + 1 == schedule.stages()) backward(done.stage);
        if (done.kind == ActionKind::I) ready.push_back({ActionKind::W, done.stage, done.micro_batch});
        if ((done.kind == ActionKind::I || done.kind == ActionKind::B) && done.stage > 0)
            backward(done.stage - 1);
    }

    std::mt19937 random_;
};

TEST(Property, RandomValidSchedulesPass) {
    for (unsigned seed = 1; seed <= 600; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Tally tally;
        judge(RandomSchedule(seed).valid(), tally);
        EXPECT_EQ(tally.accepted, 1);
    }
}

TEST(Property, RandomSchedulesAreJudgedAsByBruteForce) {
    Tally disturbed, paired;
    for (unsigned seed = 1; seed <= 1500; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        RandomSchedule random(seed);
        Schedule schedule = random.valid();
        random.pair(schedule);
        judge(schedule, paired);
        for (unsigned i = 0; i <= seed % 3; ++i) random.disturb(schedule);
        judge(schedule, disturbed);
    }
    for (const Tally& tally : {disturbed, paired}) {
        EXPECT_GT(tally.accepted, 20);
        EXPECT_GT(tally.refused, 20);
    }
}

}  // namespace
}  // namespace escalier::schedule
