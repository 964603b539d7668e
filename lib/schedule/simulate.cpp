#include "schedule/simulate.h"

#include <algorithm>

#include "core/check.h"
#include "schedule/event_graph.h"
#include "schedule/lower.h"
#include "schedule/walk.h"

namespace escalier::schedule {
namespace {

Timeline timeline_of(const Schedule& schedule, const Walk& walked) {
    if (!walked.complete) EventGraph(schedule).refuse_cycle(schedule.kind);
    Timeline timeline;
    timeline.messages = walked.messages;
    double all_busy = 0;
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
        const std::vector<Action>& actions = schedule.ranks[rank];
        std::vector<TimedAction> row;
        row.reserve(actions.size());
        double busy = 0;
        for (std::size_t i = 0; i < actions.size(); ++i) {
            const Span& span = walked.computes[rank][i];
            row.push_back({actions[i], span.start, span.end});
            if (i == 0 || !actions[i - 1].overlaps_next) busy += span.end - span.start;
        }
        if (!row.empty()) {
            timeline.makespan = std::max(timeline.makespan, row.back().end);
            timeline.span = std::max(timeline.span, row.back().end - row.front().start);
        }
        all_busy += busy;
        timeline.busy.push_back(busy);
        timeline.ranks.push_back(std::move(row));
    }
    const double mean_busy = all_busy / schedule.pp;
    for (const double busy : timeline.busy)
        timeline.idle.push_back(timeline.makespan > 0 ? (timeline.makespan - busy) / timeline.makespan : 0);
    if (timeline.makespan > 0) timeline.idle_share = (timeline.makespan - mean_busy) / timeline.makespan;
    if (timeline.span > 0) timeline.span_idle_share = (timeline.span - mean_busy) / timeline.span;
    return timeline;
}

void check_durations(const Schedule& schedule, const Durations& durations) {
    const auto stages = static_cast<std::size_t>(schedule.stages());
    ESCALIER_CHECK(durations.forward.size() == stages && durations.input_gradient.size() == stages &&
                       durations.weight_gradient.size() == stages,
                   "durations are given per stage");
}

}  // namespace

Durations Durations::uniform(int stages, double forward, double input_gradient, double weight_gradient,
                             double transfer) {
    const auto count = static_cast<std::size_t>(stages);
    return {std::vector<double>(count, forward), std::vector<double>(count, input_gradient),
            std::vector<double>(count, weight_gradient), transfer};
}

Timeline simulate(const Schedule& schedule, const Durations& durations) {
    check_durations(schedule, durations);
    return timeline_of(schedule,
                       walk(schedule, lower_with_least_rings(schedule), durations, {.unlimited = true}));
}

Timeline simulate(const Schedule& schedule, const std::vector<Program>& programs,
                  const Durations& durations) {
    check_durations(schedule, durations);
    return timeline_of(schedule, walk(schedule, programs, durations));
}

Timeline replay(const Schedule& schedule, const std::vector<Program>& programs,
                const std::vector<std::vector<double>>& durations, double transfer) {
    ESCALIER_CHECK(durations.size() == schedule.ranks.size(), "recorded durations are given per rank");
    for (std::size_t rank = 0; rank < durations.size(); ++rank)
        ESCALIER_CHECK(durations[rank].size() == schedule.ranks[rank].size(),
                       "recorded durations are given per action");
    return timeline_of(schedule, walk(schedule, programs, durations, transfer));
}

}  // namespace escalier::schedule
