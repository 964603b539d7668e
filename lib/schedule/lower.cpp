#include "schedule/lower.h"

#include "core/check.h"
#include "schedule/assign.h"
#include "schedule/check.h"
#include "schedule/event_graph.h"
#include "schedule/walk.h"

namespace escalier::schedule {
namespace {

// Some action uses what a later action of the same rank makes.
bool uses_before_made(const Schedule& schedule) {
    const auto cells =
        static_cast<std::size_t>(schedule.stages()) * static_cast<std::size_t>(schedule.micro_batches);
    std::vector<bool> forward(cells), backward(cells);
    const auto made = [&](std::vector<bool>& what, int stage, int mb) -> std::vector<bool>::reference {
        return what[static_cast<std::size_t>(stage) * static_cast<std::size_t>(schedule.micro_batches) +
                    static_cast<std::size_t>(mb)];
    };
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
        for (const Action& action : schedule.ranks[rank]) {
            const auto local = [&](int stage) {
                return stage >= 0 && stage < schedule.stages() &&
                       schedule.rank_of(stage, schedule.copy_of(action.micro_batch)) ==
                           static_cast<int>(rank);
            };
            if (action.kind == ActionKind::W) continue;
            const bool is_forward = action.kind == ActionKind::F;
            std::vector<bool>& what = is_forward ? forward : backward;
            const int source = is_forward ? action.stage - 1 : action.stage + 1;
            if (local(source) && !made(what, source, action.micro_batch)) return true;
            made(what, action.stage, action.micro_batch) = true;
        }
    }
    return false;
}

// One more buffer for every ring that the programs stand still for, or that the longest path waits for.
void grow(RingSizes& sizes, const Schedule& schedule, const std::vector<Program>& programs,
          const Walk& walked) {
    std::vector<std::pair<int, Ring>> rings = walked.critical_rings;
    if (!walked.complete) {
        const EventGraph graph(schedule, programs);
        for (const int index : graph.find_cycle()) {
            const Edge& edge = graph.edges()[static_cast<std::size_t>(index)];
            if (edge.kind == EdgeKind::posted || edge.kind == EdgeKind::buffer_sent)
                rings.emplace_back(edge.place, edge.ring);
        }
    }
    ESCALIER_CHECK(!rings.empty(), "buffers slow a schedule down, yet none lies on its critical path");
    for (const auto& [place, ring] : rings) ++ring_size(sizes, place, ring);
}

}  // namespace

std::vector<Program> lower_with_least_rings(const Schedule& schedule) {
    check_complete(schedule, pass_of(schedule));
    if (uses_before_made(schedule)) EventGraph(schedule).refuse_cycle(schedule.kind);
    return assign(schedule, least_ring_sizes(schedule));
}

std::vector<Program> lower(const Schedule& schedule) {
    std::vector<Program> programs = lower_with_least_rings(schedule);
    const auto durations = Durations::uniform(schedule.stages(), 1, 1, 1, 0);
    const Walk fastest = walk(schedule, programs, durations, {.unlimited = true});
    if (!fastest.complete) EventGraph(schedule).refuse_cycle(schedule.kind);
    RingSizes sizes = least_ring_sizes(schedule);
    constexpr double rounding = 1e-9;
    for (;;) {
        const Walk walked = walk(schedule, programs, durations, {.find_rings = true});
        if (walked.complete && walked.end <= fastest.end + rounding) return programs;
        grow(sizes, schedule, programs, walked);
        programs = assign(schedule, sizes);
    }
}

Program lower(const Schedule& schedule, int pp_rank) {
    ESCALIER_CHECK(pp_rank >= 0 && pp_rank < schedule.pp, "pipeline rank out of range");
    return lower(schedule)[static_cast<std::size_t>(pp_rank)];
}

}  // namespace escalier::schedule
