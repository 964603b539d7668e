#include "schedule/lower.h"

#include <algorithm>

#include "core/check.h"
#include "schedule/assign.h"
#include "schedule/check.h"
#include "schedule/event_graph.h"

namespace escalier::schedule {
namespace {

double last_end(const EventGraph::Times& times) {
    return *std::max_element(times.end.begin(), times.end.end());
}

// The edges of one longest path, from its end.
std::vector<int> critical_path(const EventGraph& graph, const EventGraph::Times& times) {
    std::vector<int> path;
    std::size_t node =
        static_cast<std::size_t>(std::max_element(times.end.begin(), times.end.end()) - times.end.begin());
    while (times.last_edge[node] >= 0) {
        path.push_back(times.last_edge[node]);
        node = static_cast<std::size_t>(graph.edges()[static_cast<std::size_t>(path.back())].from);
    }
    return path;
}

// One more buffer for every ring that the path waits for.
void grow(RingSizes& sizes, const EventGraph& graph, const std::vector<int>& path) {
    RingSizes grown = sizes;
    bool any = false;
    for (const int index : path) {
        const Edge& edge = graph.edges()[static_cast<std::size_t>(index)];
        if (edge.kind != EdgeKind::posted && edge.kind != EdgeKind::buffer_sent) continue;
        ring_size(grown, edge.stage, edge.ring) = ring_size(sizes, edge.stage, edge.ring) + 1;
        any = true;
    }
    ESCALIER_CHECK(any, "buffers slow a schedule down, yet none lies on its critical path");
    sizes = grown;
}

}  // namespace

std::vector<Program> lower(const Schedule& schedule) {
    check_complete(schedule, pass_of(schedule));
    const EventGraph unlimited(schedule);
    RingSizes sizes = least_ring_sizes(schedule);
    std::vector<Program> programs = assign(schedule, sizes);
    const auto durations = Durations::uniform(schedule.stages(), 1, 1, 1, 0);
    const EventGraph::Times fastest = unlimited.evaluate(durations);
    unlimited.require_complete(fastest, schedule.kind);
    constexpr double rounding = 1e-9;
    for (;;) {
        const EventGraph graph(schedule, programs);
        const EventGraph::Times times = graph.evaluate(durations);
        if (times.complete && last_end(times) <= last_end(fastest) + rounding) break;
        grow(sizes, graph, times.complete ? critical_path(graph, times) : graph.cycle(times));
        programs = assign(schedule, sizes);
    }
    return programs;
}

Program lower(const Schedule& schedule, int pp_rank) {
    ESCALIER_CHECK(pp_rank >= 0 && pp_rank < schedule.pp, "pipeline rank out of range");
    return lower(schedule)[static_cast<std::size_t>(pp_rank)];
}

}  // namespace escalier::schedule
