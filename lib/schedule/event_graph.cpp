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

}  // namespace

EventGraph::EventGraph(const Schedule& schedule) {
    add_data_edges(schedule);
    seal();
}

EventGraph::EventGraph(const Schedule& schedule, const std::vector<Program>& programs) {
    add_data_edges(schedule);
    add_buffer_edges(programs);
    seal();
}

int EventGraph::node_of(ActionKind kind, int stage, int micro_batch) const {
    return compute_index_[(at(static_cast<int>(kind)) * at(stages_) + at(stage)) * at(micro_batches_) +
                          at(micro_batch)];
}

int EventGraph::message_of(bool gradient, int stage, int micro_batch) const {
    return message_index_[(at(gradient) * at(stages_) + at(stage)) * at(micro_batches_) + at(micro_batch)];
}

void EventGraph::add(int to, int from, EdgeKind kind, Ring ring, int stage) {
    pending_.push_back({to, Edge{from, kind, ring, stage}});
}

void EventGraph::add_data_edges(const Schedule& schedule) {
    stages_ = schedule.stages();
    micro_batches_ = schedule.micro_batches;
    for (int stage = 0; stage < stages_; ++stage) rank_of_stage_.push_back(schedule.rank_of(stage));
    const std::size_t cells = at(stages_) * at(micro_batches_);
    compute_index_.assign(4 * cells, -1);
    message_index_.assign(2 * cells, -1);
    const auto compute_at = [&](ActionKind kind, const Action& a) -> int& {
        return compute_index_[at(static_cast<int>(kind)) * cells + at(a.stage) * at(micro_batches_) +
                              at(a.micro_batch)];
    };

    for (const auto& actions : schedule.ranks) {
        first_.push_back(static_cast<int>(nodes_.size()));
        for (const Action& action : actions) {
            const int node = static_cast<int>(nodes_.size());
            compute_at(action.kind, action) = node;
            if (action.kind == ActionKind::B) compute_at(ActionKind::I, action) = node;
            if (node > first_.back()) add(node, node - 1, EdgeKind::order);
            nodes_.push_back({action, false});
        }
    }
    computes_ = static_cast<int>(nodes_.size());

    std::vector<int> channel_tail(2 * at(stages_), -1);
    for (int node = 0; node < computes_; ++node) {
        const Action action = nodes_[at(node)].action;
        if (action.kind == ActionKind::W) continue;
        const bool gradient = sends_gradient(action);
        const int neighbour = gradient ? action.stage - 1 : action.stage + 1;
        if (neighbour < 0 || neighbour >= stages_) continue;
        const int consumer = node_of(gradient ? ActionKind::I : ActionKind::F, neighbour, action.micro_batch);
        ESCALIER_CHECK(consumer >= 0, "nobody consumes what " + cell(action) + " makes");
        if (rank_of_stage_[at(neighbour)] == rank_of_stage_[at(action.stage)]) {
            add(consumer, node, EdgeKind::data);
            continue;
        }
        const int message = static_cast<int>(nodes_.size());
        nodes_.push_back({action, true});
        message_index_[at(gradient) * cells + at(action.stage) * at(micro_batches_) +
                       at(action.micro_batch)] = message;
        add(message, node, EdgeKind::data);
        add(consumer, message, EdgeKind::data);
        int& tail = channel_tail[2 * at(action.stage) + at(gradient)];
        if (tail >= 0) add(message, tail, EdgeKind::channel);
        tail = message;
    }
}

void EventGraph::add_buffer_edges(const std::vector<Program>& programs) {
    std::map<std::tuple<bool, int, int>, int> occupant;  // (gradient, stage, buffer) -> message last sent
    for (const Program& program : programs) {
        int last_compute = -1;
        for (const Instruction& instruction : program.instructions) {
            const Action& action = instruction.action;
            switch (instruction.kind) {
                case InstructionKind::receive_activation:
                    if (last_compute >= 0)
                        add(message_of(false, action.stage - 1, action.micro_batch), last_compute,
                            EdgeKind::posted, Ring::inputs, action.stage);
                    break;
                case InstructionKind::receive_gradient:
                    if (last_compute >= 0)
                        add(message_of(true, action.stage + 1, action.micro_batch), last_compute,
                            EdgeKind::posted, Ring::output_gradients, action.stage);
                    break;
                case InstructionKind::compute: {
                    last_compute = node_of(action.kind, action.stage, action.micro_batch);
                    if (action.kind == ActionKind::W) break;
                    const bool gradient = sends_gradient(action);
                    const int buffer =
                        gradient ? instruction.binding.input_gradient : instruction.binding.output;
                    if (message_of(gradient, action.stage, action.micro_batch) < 0) break;
                    const auto sent = occupant.find({gradient, action.stage, buffer});
                    if (sent != occupant.end())
                        add(last_compute, sent->second, EdgeKind::buffer_sent,
                            gradient ? Ring::input_gradients : Ring::outputs, action.stage);
                    break;
                }
                case InstructionKind::send_activation:
                case InstructionKind::send_gradient: {
                    const bool gradient = instruction.kind == InstructionKind::send_gradient;
                    occupant[{gradient, action.stage, instruction.buffer}] =
                        message_of(gradient, action.stage, action.micro_batch);
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

EventGraph::Times EventGraph::evaluate(const Durations& durations) const {
    const std::size_t count = nodes_.size();
    Times times{std::vector<double>(count), std::vector<double>(count), std::vector<int>(count, -1), false,
                std::vector<bool>(count)};
    std::vector<int> out_begin(count + 1, 0), waiting(count);
    for (const Edge& edge : edges_) ++out_begin[at(edge.from) + 1];
    for (std::size_t i = 1; i <= count; ++i) out_begin[i] += out_begin[i - 1];
    std::vector<int> out(edges_.size()), next(out_begin.begin(), out_begin.end() - 1);
    std::vector<int> ready;
    for (std::size_t node = 0; node < count; ++node) {
        waiting[node] = edge_begin_[node + 1] - edge_begin_[node];
        if (waiting[node] == 0) ready.push_back(static_cast<int>(node));
        for (int e = edge_begin_[node]; e < edge_begin_[node + 1]; ++e)
            out[at(next[at(edges_[at(e)].from)]++)] = static_cast<int>(node);
    }
    std::size_t finished = 0;
    while (finished < ready.size()) {
        const std::size_t node = at(ready[finished++]);
        double start = 0;
        for (int e = edge_begin_[node]; e < edge_begin_[node + 1]; ++e) {
            const double end = times.end[at(edges_[at(e)].from)];
            if (times.last_edge[node] >= 0 && end <= start) continue;
            start = std::max(start, end);
            times.last_edge[node] = e;
        }
        const Action& action = nodes_[node].action;
        const std::size_t stage = at(action.stage);
        double duration = durations.transfer;
        if (!nodes_[node].message) {
            duration = action.kind == ActionKind::F   ? durations.forward[stage]
                       : action.kind == ActionKind::I ? durations.input_gradient[stage]
                       : action.kind == ActionKind::W
                           ? durations.weight_gradient[stage]
                           : durations.input_gradient[stage] + durations.weight_gradient[stage];
        }
        times.start[node] = start;
        times.end[node] = start + duration;
        times.done[node] = true;
        for (int o = out_begin[node]; o < out_begin[node + 1]; ++o)
            if (--waiting[at(out[at(o)])] == 0) ready.push_back(out[at(o)]);
    }
    times.complete = finished == count;
    return times;
}

std::vector<int> EventGraph::cycle(const Times& times) const {
    std::vector<int> path, position(nodes_.size(), -1);
    int node = static_cast<int>(std::find(times.done.begin(), times.done.end(), false) - times.done.begin());
    ESCALIER_CHECK(node < static_cast<int>(nodes_.size()), "a finished schedule has no cycle");
    while (position[at(node)] < 0) {
        position[at(node)] = static_cast<int>(path.size());
        int edge = edge_begin_[at(node)];
        while (times.done[at(edges_[at(edge)].from)]) ++edge;
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
