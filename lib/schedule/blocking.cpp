// The words for a circle of waiting actions.
#include <string>

#include "core/check.h"
#include "core/error.h"
#include "schedule/event_graph.h"

namespace escalier::schedule {

std::string EventGraph::describe(const std::vector<int>& cycle) const {
    const auto rank = [&](const Action& action) { return "rank " + std::to_string(sizes_.rank_of(action)); };
    const auto message_name = [](const Action& action) {
        return (action.kind == ActionKind::F ? "the activation of " : "the gradient of ") + cell(action);
    };
    constexpr std::size_t most_parts = 12;
    std::string text;
    std::size_t parts = 0;
    for (std::size_t i = 0; i < cycle.size(); ++i) {
        const Edge* edge = &edges_[static_cast<std::size_t>(cycle[i])];
        const Node& waiting = nodes_[static_cast<std::size_t>(waiting_node(cycle[i]))];
        // A run of computes on one rank is one reason, not many.
        while (edge->kind == EdgeKind::order && i + 1 < cycle.size() &&
               edges_[static_cast<std::size_t>(cycle[i + 1])].kind == EdgeKind::order)
            edge = &edges_[static_cast<std::size_t>(cycle[++i])];
        const Node& from = nodes_[static_cast<std::size_t>(edge->from)];
        std::string part;
        switch (edge->kind) {
            case EdgeKind::order:
                part = rank(waiting.action) + " runs " + cell(waiting.action) + " after " + cell(from.action);
                break;
            case EdgeKind::data:
                if (waiting.message) continue;  // a message waits for its producer: the next part says why
                part = rank(waiting.action) + " waits in " + cell(waiting.action) + " for " +
                       message_name(from.action) + " from " + rank(from.action);
                break;
            case EdgeKind::channel:
                part = message_name(waiting.action) + " is queued behind " + message_name(from.action);
                break;
            case EdgeKind::posted:
                part = rank(from.action) + " has no buffer for " + message_name(waiting.action) + " before " +
                       cell(from.action) + " is done";
                break;
            case EdgeKind::buffer_sent:
                part = rank(waiting.action) + " waits in " + cell(waiting.action) + " until " +
                       message_name(from.action) + " has left its buffer";
                break;
        }
        if (++parts > most_parts) return text + "; ...";
        text += (text.empty() ? "" : "; ") + part;
    }
    return text;
}

void EventGraph::refuse_cycle(const std::string& schedule_kind) const {
    const std::vector<int> cycle = find_cycle();
    ESCALIER_CHECK(!cycle.empty(), "a schedule that completes has no cycle");
    throw ConfigError("schedule `" + schedule_kind +
                      "` never ends, because its actions wait for one another: " + describe(cycle) +
                      "; reorder these actions");
}

}  // namespace escalier::schedule
