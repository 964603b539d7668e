#include "pipeline/bubble.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "core/check.h"
#include "schedule/simulate.h"

namespace escalier::pipeline {

namespace {

using schedule::Action;
using schedule::ActionKind;
using schedule::Schedule;

constexpr std::size_t kinds = 4;

std::size_t index(ActionKind kind) {
    return static_cast<std::size_t>(kind);
}

// Calls take(rank, i, duration) for every action. Those of an overlapped pair share its time as they share
// its work.
template <class Take>
void for_each_duration(const RankActions& actions, Take take) {
    for (std::size_t rank = 0; rank < actions.size(); ++rank) {
        const std::vector<ActionTime>& row = actions[rank];
        for (std::size_t i = 0; i < row.size(); ++i) {
            const double time = row[i].end - row[i].start;
            if (!row[i].action.overlaps_next) {
                take(rank, i, time);
                continue;
            }
            const double work = row[i].work + row[i + 1].work;
            const double share = work > 0 ? row[i].work / work : 0.5;
            take(rank, i, time * share);
            take(rank, i + 1, time * (1 - share));
            ++i;
        }
    }
}

struct Mean {
    double sum = 0;
    std::int64_t count = 0;
    void add(double x) {
        sum += x;
        ++count;
    }
    double value() const { return count ? sum / static_cast<double>(count) : 0; }
};

// The makespan and its idle share of one step as it was measured.
struct Measured {
    double makespan = 0, idle_share = 0;
};

Measured measure(const RankActions& actions) {
    double first = std::numeric_limits<double>::max(), last = std::numeric_limits<double>::lowest(), busy = 0;
    for (const std::vector<ActionTime>& row : actions) {
        first = std::min(first, row.front().start);
        last = std::max(last, row.back().end);
    }
    for_each_duration(actions, [&](std::size_t, std::size_t, double duration) { busy += duration; });
    const double makespan = last - first;
    const double all = makespan * static_cast<double>(actions.size());
    return {makespan, all > 0 ? (all - busy) / all : 0};
}

}  // namespace

std::vector<StageTimes> stage_times(const Schedule& schedule, const RankActions& actions) {
    std::vector<Mean> means(static_cast<std::size_t>(schedule.places()) * kinds);
    for_each_duration(actions, [&](std::size_t rank, std::size_t i, double duration) {
        const Action& action = actions[rank][i].action;
        means[static_cast<std::size_t>(schedule.place_of(action)) * kinds + index(action.kind)].add(duration);
    });
    std::vector<StageTimes> times;
    for (int place = 0; place < schedule.places(); ++place) {
        const Mean* of = means.data() + static_cast<std::size_t>(place) * kinds;
        times.push_back({place % schedule.stages(), place / schedule.stages(), schedule.rank_of_place(place),
                         of[index(ActionKind::F)].value(), of[index(ActionKind::B)].value(),
                         of[index(ActionKind::I)].value(), of[index(ActionKind::W)].value()});
    }
    return times;
}

BubbleRecorder::BubbleRecorder(const Schedule& schedule, const std::vector<schedule::Program>& programs)
    : schedule_(schedule), programs_(programs) {
    for (const auto& row : schedule.ranks) actions_ += row.size();
    constexpr std::size_t most_steps = 100, most_bytes = std::size_t{16} << 20;
    const std::size_t steps = std::clamp<std::size_t>(
        most_bytes / (std::max<std::size_t>(1, actions_) * sizeof(double)), 1, most_steps);
    kept_.resize(steps);
    durations_.resize(steps * actions_);
}

std::int64_t BubbleRecorder::steps() const {
    return static_cast<std::int64_t>(std::min(added_, kept_.size()));
}

void BubbleRecorder::add(const RankActions& actions) {
    const std::size_t slot = added_++ % kept_.size();
    double* to = durations_.data() + slot * actions_;
    const double* const end = to + actions_;
    for_each_duration(actions, [&](std::size_t, std::size_t, double duration) {
        ESCALIER_CHECK(to < end, "these times are of another schedule");
        *to++ = duration;
    });
    const Measured measured = measure(actions);
    kept_[slot] = {measured.makespan, measured.idle_share};
}

Bubble BubbleRecorder::bubble() const {
    Bubble bubble;
    bubble.steps = steps();
    ESCALIER_CHECK(bubble.steps > 0, "no step was recorded");
    const auto count = static_cast<double>(bubble.steps);

    std::vector<std::vector<double>> durations;
    for (const auto& row : schedule_.ranks) durations.emplace_back(row.size());
    // Calls take(action, its place in durations, its place in the recorded ones) for every action.
    const auto for_each = [&](const std::function<void(const Action&, double&, std::size_t)>& take) {
        std::size_t at = 0;
        for (std::size_t rank = 0; rank < durations.size(); ++rank)
            for (std::size_t i = 0; i < durations[rank].size(); ++i)
                take(schedule_.ranks[rank][i], durations[rank][i], at++);
    };

    std::vector<Mean> of_stage(static_cast<std::size_t>(schedule_.places()) * kinds), of_all(kinds);
    const auto stage_mean = [&](const Action& action) -> Mean& {
        return of_stage[static_cast<std::size_t>(schedule_.place_of(action)) * kinds + index(action.kind)];
    };
    for (std::size_t step = 0; step < static_cast<std::size_t>(bubble.steps); ++step) {
        for_each([&](const Action& action, double& duration, std::size_t at) {
            duration = durations_[step * actions_ + at];
            stage_mean(action).add(duration);
            of_all[index(action.kind)].add(duration);
        });
        const schedule::Timeline replayed = schedule::replay(schedule_, programs_, durations, 0);
        bubble.replayed += replayed.idle_share / count;
        bubble.replayed_makespan += replayed.makespan / count;
        bubble.measured += kept_[step].idle_share / count;
        bubble.measured_makespan += kept_[step].makespan / count;
    }
    for_each(
        [&](const Action& action, double& duration, std::size_t) { duration = stage_mean(action).value(); });
    bubble.simulated = schedule::replay(schedule_, programs_, durations, 0).idle_share;
    for_each([&](const Action& action, double& duration, std::size_t) {
        duration = of_all[index(action.kind)].value();
    });
    bubble.theory = schedule::replay(schedule_, programs_, durations, 0).idle_share;
    return bubble;
}

}  // namespace escalier::pipeline
