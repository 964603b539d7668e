#include "schedule/lower.h"

#include <algorithm>

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

// For every place the ring sizes with which no message ever waits for its receive to be posted, from the
// times of a walk without limits. Both lists of times ascend.
class FreeRunning {
 public:
    FreeRunning(const Schedule& schedule, const Walk& fastest) : schedule_(schedule), edges_(2 * places()) {
        const bool forward_pass = pass_of(schedule) == Pass::forward;
        for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
            const std::vector<Action>& actions = schedule.ranks[rank];
            for (std::size_t i = 0; i < actions.size(); ++i) {
                const double end = fastest.computes[rank][i].end;
                const auto place = static_cast<std::size_t>(schedule.place_of(actions[i]));
                const ActionKind kind = actions[i].kind;
                if (kind == ActionKind::F && place + 1 < places()) edges_[place + 1].ready.push_back(end);
                if (is_input_half(kind) || forward_pass) edges_[place].released.push_back(end);
                if (is_input_half(kind) && place > 0) edges_[places() + place - 1].ready.push_back(end);
                if (is_weight_half(kind)) edges_[places() + place].released.push_back(end);
            }
        }
    }
    int ring_size(int place, Ring ring) const {
        const Edge& edge =
            edges_[static_cast<std::size_t>(place) + (ring == Ring::output_gradients ? places() : 0)];
        std::size_t released = 0, most = 0;
        for (std::size_t k = 0; k < edge.ready.size(); ++k) {
            while (released < edge.released.size() && edge.released[released] <= edge.ready[k]) ++released;
            most = std::max(most, k + 1 - std::min(released, k));
        }
        return static_cast<int>(most);
    }

 private:
    struct Edge {
        std::vector<double> ready, released;
    };
    std::size_t places() const { return static_cast<std::size_t>(schedule_.places()); }
    const Schedule& schedule_;
    std::vector<Edge> edges_;  // into each place: activations, then gradients
};

// Rings for received messages that the programs stand still for, or that the longest path waits for.
std::vector<std::pair<int, Ring>> limiting_rings(const Schedule& schedule,
                                                 const std::vector<Program>& programs, const Walk& walked) {
    if (walked.complete) return walked.critical_rings;
    std::vector<std::pair<int, Ring>> rings;
    const EventGraph graph(schedule, programs);
    for (const int index : graph.find_cycle()) {
        const Edge& edge = graph.edges()[static_cast<std::size_t>(index)];
        if (edge.kind == EdgeKind::posted) rings.emplace_back(edge.place, edge.ring);
    }
    return rings;
}

// More buffers for the limiting rings that are smaller than a free-running sender fills (the others only pass
// the wait on): one at a time where few are missing, else as many as that. Where there is none, for all such
// rings.
void grow(RingSizes& sizes, const std::vector<std::pair<int, Ring>>& limiting,
          const FreeRunning& free_running) {
    constexpr int few = 8;
    bool grown = false;
    const auto grow_one = [&](int place, Ring ring) {
        int& size = ring_size(sizes, place, ring);
        const int enough = free_running.ring_size(place, ring);
        if (size >= enough) return;
        size = enough - size < few ? size + 1 : enough;
        grown = true;
    };
    for (const auto& [place, ring] : limiting)
        if (ring == Ring::inputs || ring == Ring::output_gradients) grow_one(place, ring);
    for (std::size_t place = 0; !grown && place < sizes.size(); ++place)
        for (const Ring ring : {Ring::inputs, Ring::output_gradients})
            if (ring_size(sizes, static_cast<int>(place), ring) > 0) grow_one(static_cast<int>(place), ring);
    ESCALIER_CHECK(grown, "a schedule is slowed down, though no message waits for its receive");
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
    const FreeRunning free_running(schedule, fastest);
    RingSizes sizes = least_ring_sizes(schedule);
    constexpr double rounding = 1e-9;
    for (;;) {
        const Walk walked = walk(schedule, programs, durations, {.find_rings = true});
        if (walked.complete && walked.end <= fastest.end + rounding) return programs;
        grow(sizes, limiting_rings(schedule, programs, walked), free_running);
        programs = assign(schedule, sizes);
    }
}

}  // namespace escalier::schedule
