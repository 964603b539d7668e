// Computes and messages of a schedule as a graph of who waits for whom, to name the cycle that keeps a
// schedule from completing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/action.h"
#include "schedule/assign.h"
#include "schedule/program.h"

namespace escalier::schedule {

enum class EdgeKind : std::uint8_t {
    order,       // the compute before it on its rank
    data,        // compute to compute on one rank, compute to message, message to compute
    channel,     // the message before it in its channel
    posted,      // compute to message: the receive is posted after that compute freed the buffer
    buffer_sent  // message to compute: the output buffer is free once that message has moved
};

struct Edge {
    int from;
    EdgeKind kind;
    Ring ring = Ring::inputs;  // posted and buffer_sent: of which ring ...
    int place = -1;            // ... of which place
};

// A compute, or the message that it sends. An overlapped pair is one compute, with its first action.
struct Node {
    Action action;
    bool message = false;
};

class EventGraph {
 public:
    // Unlimited buffers. The schedule must be complete (check.h).
    explicit EventGraph(const Schedule& schedule);
    // With the buffers and posting times of the programs.
    EventGraph(const Schedule& schedule, const std::vector<Program>& programs);

    // Indices into edges() of one cycle among the nodes that never start, in waiting order; empty: all start.
    std::vector<int> find_cycle() const;
    // ConfigError that describes the cycle, which must be there: "rank 0 waits in 0B0 for ...".
    [[noreturn]] void refuse_cycle(const std::string& schedule_kind) const;

    const std::vector<Edge>& edges() const { return edges_; }

 private:
    struct PendingEdge {
        int to;
        Edge edge;
    };
    void add(int to, int from, EdgeKind kind, Ring ring = Ring::inputs, int place = -1);
    void add_computes(const Schedule& schedule);
    void add_messages(const Schedule& schedule);
    void add_buffer_edges(const std::vector<Program>& programs);
    void seal();
    std::vector<bool> started() const;
    // The node that waits by this edge.
    int waiting_node(int edge) const;
    std::string describe(const std::vector<int>& cycle) const;
    int& compute_at(ActionKind kind, int stage, int micro_batch);
    int& message_at(bool gradient, int stage, int micro_batch);

    Schedule sizes_;  // without its actions
    std::vector<Node> nodes_;
    std::vector<int> compute_index_;  // (kind, stage, micro-batch) -> node; B stands for I and W
    std::vector<int> message_index_;  // (gradient, stage, micro-batch) -> node; -1: handed over locally
    std::vector<PendingEdge> pending_;
    std::vector<Edge> edges_;      // grouped by waiting node
    std::vector<int> edge_begin_;  // per node, into edges_
};

}  // namespace escalier::schedule
