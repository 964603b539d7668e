// Every schedule through executor, channels and messages of real processes on the virtual clock: the times
// equal those of the simulator and the closed forms, activations alive at once equal the proof's.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pipeline/cost_pipeline.h"
#include "schedule/generators.h"
#include "schedule/lower.h"
#include "schedule/prove.h"
#include "schedule/simulate.h"
#include "tests/harness/multirank_main.h"
#include "tests/multirank/pipeline/closed_forms.h"

namespace escalier::pipeline {
namespace {

using schedule::Durations;
using schedule::GenerateOptions;
using schedule::Schedule;
using test::env;

constexpr double tolerance = 1e-9;  // relative to the makespan

// The sizes of a kind that are tried with so many ranks and micro-batches.
std::vector<GenerateOptions> variants(const schedule::Kind& kind, int pp, int micro_batches) {
    GenerateOptions base;
    base.kind = kind.name;
    base.pp = pp;
    base.chunks = kind.default_chunks;
    base.micro_batches = micro_batches;
    std::vector<GenerateOptions> found{base};
    if (kind.has_lifo) {
        found.push_back(base);
        found.back().backward = schedule::BackwardOrder::lifo;
    }
    found.push_back(base);
    found.back().chunks = base.chunks + 1;
    if (kind.has_group) {
        found.push_back(base);
        found.back().group = micro_batches;
    }
    std::erase_if(found, [&](const GenerateOptions& o) { return !schedule::size_problem(kind, o).empty(); });
    return found;
}

std::string describe(const GenerateOptions& options) {
    return options.kind + (options.backward == schedule::BackwardOrder::lifo ? " lifo" : "") +
           " P=" + std::to_string(options.pp) + " V=" + std::to_string(options.chunks) +
           " M=" + std::to_string(options.micro_batches) + " N=" + std::to_string(options.group);
}

// Stages that differ in every duration, messages that take a while.
Durations uneven(int stages) {
    Durations durations = Durations::uniform(stages, 0, 0, 0, 0.37);
    for (int s = 0; s < stages; ++s) {
        const auto i = static_cast<std::size_t>(s);
        durations.forward[i] = 1 + 0.1 * (7 * s % 5);
        durations.input_gradient[i] = 1.1 + 0.13 * (3 * s % 7);
        durations.weight_gradient[i] = 0.6 + 0.07 * (5 * s % 11);
    }
    durations.pair_factor = 0.9;
    return durations;
}

// A group of the first `pp` ranks of the world and what is run there.
class Group {
 public:
    explicit Group(int pp) : pp_(env().world().split(env().world().rank() < pp ? 0 : -1, 0)) {}
    bool member() const { return pp_ != nullptr; }

    // With so many of the sets of costs below. How many of the runs had a closed form.
    int run(const GenerateOptions& options, std::size_t costs = 5) {
        const Schedule schedule = schedule::generate(options);
        const auto programs = schedule::lower(schedule);
        CostPipeline pipeline(env(), *pp_, schedule, programs);
        const int stages = schedule.stages();
        int closed = 0;
        const std::vector<Durations> all = {Durations::uniform(stages, 1.1, 1.1, 0.7, 0), uneven(stages),
                                            Durations::uniform(stages, 1, 1, 1, 0),
                                            Durations::uniform(stages, 1, 1.2, 0.5, 0),
                                            Durations::uniform(stages, 1, 1, 1, 2.5)};
        for (const Durations& durations : std::span(all).first(costs)) {
            VirtualClock clock(durations.transfer);
            pipeline.set(durations, clock);
            const StepTimes& times = pipeline.run();
            expect_simulated(times, schedule, durations, describe(options));
            const double last = makespan(times);
            if (const std::optional<double> form = test::closed_form(options, durations)) {
                EXPECT_NEAR(last, *form, tolerance * *form) << describe(options);
                ++closed;
            }
        }
        expect_proved_peaks(pipeline.stages(), schedule, programs, describe(options));
        return closed;
    }

 private:
    double makespan(const StepTimes& times) {
        double last = times.end;
        pp_->all_reduce_max(TensorView(&last, DType::f64, {1}), "the last end");
        return last;
    }

    // What the first rank computes goes to all: 64 simulations at once would take most of the time.
    void share(std::vector<double>& numbers) {
        pp_->broadcast(TensorView(numbers.data(), DType::f64, {static_cast<std::int64_t>(numbers.size())}), 0,
                       "what is expected");
    }

    void expect_simulated(const StepTimes& times, const Schedule& schedule, const Durations& durations,
                          const std::string& what) {
        std::vector<double> expected;  // makespan, idle share, then start and end of every action
        const std::vector<std::size_t> first = first_actions(schedule);
        if (pp_->rank() == 0) {
            const schedule::Timeline timeline = schedule::simulate(schedule, durations);
            expected = {timeline.makespan, timeline.idle_share};
            for (const auto& row : timeline.ranks)
                for (const schedule::TimedAction& action : row)
                    expected.insert(expected.end(), {action.start, action.end});
        }
        expected.resize(2 + 2 * first.back());
        share(expected);
        const double allowed = tolerance * expected[0];
        const auto rank = static_cast<std::size_t>(pp_->rank());
        ASSERT_EQ(times.actions.size(), schedule.ranks[rank].size()) << what;
        const double* own = expected.data() + 2 + 2 * first[rank];
        for (const ActionTime& action : times.actions) {
            ASSERT_NEAR(action.start, *own++, allowed) << what << " " << cell(action.action);
            ASSERT_NEAR(action.end, *own++, allowed) << what << " " << cell(action.action);
        }
        EXPECT_NEAR(makespan(times), expected[0], allowed) << what;
        double busy = times.compute;
        pp_->all_reduce_sum(TensorView(&busy, DType::f64, {1}), "busy time");
        EXPECT_NEAR(1 - busy / expected[0] / pp_->size(), expected[1], tolerance) << what;
    }

    // Per rank, how many actions the ranks before it have; then that of all.
    static std::vector<std::size_t> first_actions(const Schedule& schedule) {
        std::vector<std::size_t> first{0};
        for (const auto& actions : schedule.ranks) first.push_back(first.back() + actions.size());
        return first;
    }

    void expect_proved_peaks(const CostStages& stages, const Schedule& schedule,
                             const std::vector<schedule::Program>& programs, const std::string& what) {
        std::vector<double> peaks;
        if (pp_->rank() == 0) {
            const schedule::Proof proof = schedule::prove(schedule, programs);
            peaks.assign(proof.peak_until_weight.begin(), proof.peak_until_weight.end());
            peaks.insert(peaks.end(), proof.peak_until_input.begin(), proof.peak_until_input.end());
        }
        const auto rank = static_cast<std::size_t>(pp_->rank()), ranks = schedule.ranks.size();
        peaks.resize(2 * ranks);
        share(peaks);
        EXPECT_EQ(stages.peak_until_weight(), peaks[rank]) << what;
        EXPECT_EQ(stages.peak_until_input(), peaks[ranks + rank]) << what;
    }

    std::unique_ptr<comm::Communicator> pp_;
};

// Every kind at every size. Beyond 16 ranks, where each of 64 processes lowers the schedule for itself, with
// the kind's own chunks and group and two sets of costs.
void run_all(const std::vector<int>& sizes) {
    std::map<std::string, int> closed;
    for (const int pp : sizes) {
        Group group(pp);
        if (!group.member()) continue;
        for (const schedule::Kind& kind : schedule::kinds())
            for (const int micro_batches : {pp, 3 * pp, 8 * pp})
                for (const GenerateOptions& options : variants(kind, pp, micro_batches)) {
                    if (pp <= 16)
                        closed[options.kind] += group.run(options);
                    else if (options.chunks == kind.default_chunks && options.group == 0)
                        closed[options.kind] += group.run(options, 2);
                }
    }
    if (env().world().rank() != 0) return;
    for (const schedule::Kind& kind : schedule::kinds()) {
        if (test::has_closed_form(kind.name)) {
            EXPECT_GT(closed[std::string(kind.name)], 0) << kind.name;
        }
    }
}

TEST(VirtualClock, EveryScheduleOnUpToEightRanks) {
    run_all({2, 4, 8});
}

// How close to the simulator it comes is measured (scripts/bench_pipeline), for that depends on the machine.
TEST(SleepClock, EveryActionTakesItsTimeAtLeast) {
    const int pp = env().world().size();
    SleepClock clock;
    for (const schedule::Kind& kind : schedule::kinds()) {
        const std::vector<GenerateOptions> found = variants(kind, pp, 2 * pp);
        if (found.empty()) continue;
        const Schedule schedule = schedule::generate(found.front());
        CostPipeline pipeline(env(), env().world(), schedule, schedule::lower(schedule), 1000);
        const Durations durations = Durations::uniform(schedule.stages(), 5e-4, 5e-4, 5e-4, 0);
        pipeline.set(durations, clock);
        const StepTimes& times = pipeline.run();
        EXPECT_EQ(times.actions.size(),
                  schedule.ranks[static_cast<std::size_t>(env().world().rank())].size());
        double last = clock.now();
        for (auto action = times.actions.rbegin(); action != times.actions.rend(); ++action) {
            EXPECT_GE(action->end - action->start, 5e-4 - 1e-6) << cell(action->action);
            if (action == times.actions.rbegin() || !action->action.overlaps_next) {
                EXPECT_LE(action->end, last) << cell(action->action);
            }
            last = action->start;
        }
    }
}

// With as many pipeline ranks as processes were started.
TEST(VirtualClockLarge, EverySchedule) {
    run_all({env().world().size()});
}

TEST(VirtualClockLarge, AFew) {
    const int pp = env().world().size();
    Group group(pp);
    for (const schedule::Kind& kind : schedule::kinds()) {
        if (pp > 16 && kind.name != "1f1b" && kind.name != "zbv") continue;
        const std::vector<GenerateOptions> found = variants(kind, pp, 3 * pp);
        if (!found.empty()) group.run(found.front(), 2);
    }
}

}  // namespace
}  // namespace escalier::pipeline
