#include "schedule/simulate.h"

#include <algorithm>

#include "core/check.h"
#include "schedule/check.h"
#include "schedule/event_graph.h"

namespace escalier::schedule {
namespace {

Timeline timeline_of(const Schedule& schedule, const EventGraph& graph, const Durations& durations) {
    const auto stages = static_cast<std::size_t>(schedule.stages());
    ESCALIER_CHECK(durations.forward.size() == stages && durations.input_gradient.size() == stages &&
                       durations.weight_gradient.size() == stages,
                   "durations are given per stage");
    const EventGraph::Times times = graph.evaluate(durations);
    graph.require_complete(times, schedule.kind);
    Timeline timeline;
    timeline.messages = graph.messages();
    double all_busy = 0;
    for (int rank = 0; rank < schedule.pp; ++rank) {
        auto node = static_cast<std::size_t>(graph.first_node(rank));
        std::vector<TimedAction> row;
        double busy = 0;
        for (const Action& action : schedule.ranks[static_cast<std::size_t>(rank)]) {
            row.push_back({action, times.start[node], times.end[node]});
            busy += times.end[node] - times.start[node];
            ++node;
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

}  // namespace

Durations Durations::uniform(int stages, double forward, double input_gradient, double weight_gradient,
                             double transfer) {
    const auto count = static_cast<std::size_t>(stages);
    return {std::vector<double>(count, forward), std::vector<double>(count, input_gradient),
            std::vector<double>(count, weight_gradient), transfer};
}

Timeline simulate(const Schedule& schedule, const Durations& durations) {
    check_complete(schedule, pass_of(schedule));
    return timeline_of(schedule, EventGraph(schedule), durations);
}

Timeline simulate(const Schedule& schedule, const std::vector<Program>& programs,
                  const Durations& durations) {
    check_complete(schedule, pass_of(schedule));
    return timeline_of(schedule, EventGraph(schedule, programs), durations);
}

}  // namespace escalier::schedule
