#include "schedule/event_graph.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/check.h"

namespace escalier::schedule {
namespace {

std::size_t at(int i) {
    return static_cast<std::size_t>(i);
}

bool sends_gradient(const Action& action) {
    return action.kind != ActionKind::F;
}

Schedule sizes_of(const Schedule& schedule) {
    Schedule sizes = schedule;
    sizes.ranks.clear();
    return sizes;
}

}  // namespace

EventGraph::EventGraph(const Schedule& schedule) : sizes_(sizes_of(schedule)) {
    add_computes(schedule);
    add_messages(schedule);
    seal();
}

EventGraph::EventGraph(const Schedule& schedule, const std::vector<Program>& programs)
    : sizes_(sizes_of(schedule)) {
    add_computes(schedule);
    add_messages(schedule);
    add_buffer_edges(programs);
    seal();
}

int& EventGraph::compute_at(ActionKind kind, int stage, int micro_batch) {
    return compute_index_[(at(static_cast<int>(kind)) * at(sizes_.stages()) + at(stage)) *
                              at(sizes_.micro_batches) +
                          at(micro_batch)];
}

int& EventGraph::message_at(bool gradient, int stage, int micro_batch) {
    return message_index_[(at(gradient) * at(sizes_.stages()) + at(stage)) * at(sizes_.micro_batches) +
                          at(micro_batch)];
}

void EventGraph::add(int to, int from, EdgeKind kind, Ring ring, int place) {
    pending_.push_back({to, Edge{from, kind, ring, place}});
}

void EventGraph::add_computes(const Schedule& schedule) {
    compute_index_.assign(4 * at(sizes_.stages()) * at(sizes_.micro_batches), -1);
    for (const auto& actions : schedule.ranks) {
        const std::size_t first = nodes_.size();
        bool second_of_pair = false;
        for (const Action& action : actions) {
            if (!second_of_pair) {
                if (nodes_.size() > first)
                    add(static_cast<int>(nodes_.size()), static_cast<int>(nodes_.size()) - 1,
                        EdgeKind::order);
                nodes_.push_back({action, false});
            }
            const int node = static_cast<int>(nodes_.size()) - 1;
            compute_at(action.kind, action.stage, action.micro_batch) = node;
            if (action.kind == ActionKind::B)
                compute_at(ActionKind::I, action.stage, action.micro_batch) = node;
            second_of_pair = action.overlaps_next;
        }
    }
}

void EventGraph::add_messages(const Schedule& schedule) {
    message_index_.assign(2 * at(sizes_.stages()) * at(sizes_.micro_batches), -1);
    std::vector<int> channel_tail(2 * at(sizes_.places()), -1);
    for (const auto& actions : schedule.ranks) {
        for (const Action& action : actions) {
            if (action.kind == ActionKind::W) continue;
            const int node = compute_at(action.kind, action.stage, action.micro_batch);
            const bool gradient = sends_gradient(action);
            const int neighbour = gradient ? action.stage - 1 : action.stage + 1;
            if (neighbour < 0 || neighbour >= sizes_.stages()) continue;
            const int consumer =
                compute_at(gradient ? ActionKind::I : ActionKind::F, neighbour, action.micro_batch);
            ESCALIER_CHECK(consumer >= 0, "nobody consumes what " + cell(action) + " makes");
            const int copy = sizes_.copy_of(action.micro_batch);
            if (sizes_.rank_of(neighbour, copy) == sizes_.rank_of(action.stage, copy)) {
                add(consumer, node, EdgeKind::data);
                continue;
            }
            const int message = static_cast<int>(nodes_.size());
            nodes_.push_back({action, true});
            message_at(gradient, action.stage, action.micro_batch) = message;
            add(message, node, EdgeKind::data);
            add(consumer, message, EdgeKind::data);
            int& tail = channel_tail[2 * at(sizes_.place_of(action)) + at(gradient)];
            if (tail >= 0) add(message, tail, EdgeKind::channel);
            tail = message;
        }
    }
}

void EventGraph::add_buffer_edges(const std::vector<Program>& programs) {
    std::map<std::tuple<bool, int, int>, int> occupant;  // (gradient, place, buffer) -> message last sent
    for (const Program& program : programs) {
        int last_compute = -1;
        for (const Instruction& instruction : program.instructions) {
            const Action& action = instruction.action;
            switch (instruction.kind) {
                case InstructionKind::receive_activation:
                    if (last_compute >= 0)
                        add(message_at(false, action.stage - 1, action.micro_batch), last_compute,
                            EdgeKind::posted, Ring::inputs, sizes_.place_of(action));
                    break;
                case InstructionKind::receive_gradient:
                    if (last_compute >= 0)
                        add(message_at(true, action.stage + 1, action.micro_batch), last_compute,
                            EdgeKind::posted, Ring::output_gradients, sizes_.place_of(action));
                    break;
                case InstructionKind::compute: {
                    last_compute = compute_at(action.kind, action.stage, action.micro_batch);
                    if (action.kind == ActionKind::W) break;
                    const bool gradient = sends_gradient(action);
                    const int buffer =
                        gradient ? instruction.binding.input_gradient : instruction.binding.output;
                    if (message_at(gradient, action.stage, action.micro_batch) < 0) break;
                    const auto sent = occupant.find({gradient, sizes_.place_of(action), buffer});
                    if (sent != occupant.end())
                        add(last_compute, sent->second, EdgeKind::buffer_sent,
                            gradient ? Ring::input_gradients : Ring::outputs, sizes_.place_of(action));
                    break;
                }
                case InstructionKind::send_activation:
                case InstructionKind::send_gradient: {
                    const bool gradient = instruction.kind == InstructionKind::send_gradient;
                    occupant[{gradient, sizes_.place_of(action), instruction.buffer}] =
                        message_at(gradient, action.stage, action.micro_batch);
                    break;
                }
                case InstructionKind::reduce_gradients:
                    break;
            }
        }
    }
}

// Groups the edges by the node that waits, keeping their order: buffer edges come last in each group.
void EventGraph::seal() {
    edge_begin_.assign(nodes_.size() + 1, 0);
    for (const PendingEdge& pending : pending_) ++edge_begin_[at(pending.to) + 1];
    for (std::size_t i = 1; i < edge_begin_.size(); ++i) edge_begin_[i] += edge_begin_[i - 1];
    edges_.resize(pending_.size());
    std::vector<int> next(edge_begin_.begin(), edge_begin_.end() - 1);
    for (const PendingEdge& pending : pending_) edges_[at(next[at(pending.to)]++)] = pending.edge;
    pending_.clear();
    pending_.shrink_to_fit();
}

int EventGraph::waiting_node(int edge) const {
    return static_cast<int>(std::upper_bound(edge_begin_.begin(), edge_begin_.end(), edge) -
                            edge_begin_.begin()) -
           1;
}

std::vector<bool> EventGraph::started() const {
    const std::size_t count = nodes_.size();
    std::vector<bool> started(count);
    std::vector<int> out_begin(count + 1, 0), waiting(count);
    for (const Edge& edge : edges_) ++out_begin[at(edge.from) + 1];
    for (std::size_t i = 1; i <= count; ++i) out_begin[i] += out_begin[i - 1];
    std::vector<int> out(edges_.size()), next(out_begin.begin(), out_begin.end() - 1), ready;
    for (std::size_t node = 0; node < count; ++node) {
        waiting[node] = edge_begin_[node + 1] - edge_begin_[node];
        if (waiting[node] == 0) ready.push_back(static_cast<int>(node));
        for (int e = edge_begin_[node]; e < edge_begin_[node + 1]; ++e)
            out[at(next[at(edges_[at(e)].from)]++)] = static_cast<int>(node);
    }
    while (!ready.empty()) {
        const std::size_t node = at(ready.back());
        ready.pop_back();
        started[node] = true;
        for (int o = out_begin[node]; o < out_begin[node + 1]; ++o)
            if (--waiting[at(out[at(o)])] == 0) ready.push_back(out[at(o)]);
    }
    return started;
}

std::vector<int> EventGraph::find_cycle() const {
    const std::vector<bool> started = this->started();
    const auto stuck = std::find(started.begin(), started.end(), false);
    if (stuck == started.end()) return {};
    int node = static_cast<int>(stuck - started.begin());
    std::vector<int> path, position(nodes_.size(), -1);
    while (position[at(node)] < 0) {
        position[at(node)] = static_cast<int>(path.size());
        int edge = edge_begin_[at(node)];
        while (started[at(edges_[at(edge)].from)]) ++edge;
        path.push_back(edge);
        node = edges_[at(edge)].from;
    }
    path.erase(path.begin(), path.begin() + position[at(node)]);
    // Begin where a rank waits for a message: that is what a reader looks for first.
    const auto waits_for_message = [&](int edge) {
        return !nodes_[at(waiting_node(edge))].message && nodes_[at(edges_[at(edge)].from)].message;
    };
    std::rotate(path.begin(), std::find_if(path.begin(), path.end(), waits_for_message), path.end());
    return path;
}

}  // namespace escalier::schedule
