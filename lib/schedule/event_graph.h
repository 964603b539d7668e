// Computes and messages of a schedule as a graph of who waits for whom. The prover asks whether it has a
// cycle, the simulator for its longest paths.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/action.h"
#include "schedule/program.h"
#include "schedule/simulate.h"

namespace escalier::schedule {

enum class Ring : std::uint8_t { inputs, outputs, output_gradients, input_gradients };

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
    int stage = -1;            // ... of which stage
};

// A compute, or the message that it sends.
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

    struct Times {
        std::vector<double> start, end;  // per node
        std::vector<int> last_edge;      // per node: index into edges() that fixed its start; -1: none
        bool complete = false;           // false: a cycle keeps some nodes from starting
        std::vector<bool> done;
    };
    Times evaluate(const Durations& durations) const;
    // Indices into edges() of one cycle among the nodes that are not done, in waiting order.
    std::vector<int> cycle(const Times& times) const;
    // "rank 0 waits in 0B0 for ...".
    std::string describe(const std::vector<int>& cycle) const;
    // ConfigError that describes the cycle, unless complete.
    void require_complete(const Times& times, const std::string& schedule_kind) const;

    const std::vector<Node>& nodes() const { return nodes_; }
    const std::vector<Edge>& edges() const { return edges_; }
    // The node that waits by this edge.
    int waiting_node(int edge) const;
    // Compute nodes come first, rank by rank in schedule order.
    int first_node(int rank) const { return first_[static_cast<std::size_t>(rank)]; }
    std::int64_t messages() const { return static_cast<std::int64_t>(nodes_.size()) - computes_; }

 private:
    struct PendingEdge {
        int to;
        Edge edge;
    };
    void add(int to, int from, EdgeKind kind, Ring ring = Ring::inputs, int stage = -1);
    void add_data_edges(const Schedule& schedule);
    void add_buffer_edges(const std::vector<Program>& programs);
    void seal();
    int node_of(ActionKind kind, int stage, int micro_batch) const;
    int message_of(bool gradient, int stage, int micro_batch) const;

    int stages_ = 0, micro_batches_ = 0, computes_ = 0;
    std::vector<int> rank_of_stage_;
    std::vector<Node> nodes_;
    std::vector<int> first_;
    std::vector<int> compute_index_;  // (kind, stage, micro-batch) -> node; B stands for I and W
    std::vector<int> message_index_;  // (gradient, stage, micro-batch) -> node; -1: handed over locally
    std::vector<PendingEdge> pending_;
    std::vector<Edge> edges_;      // grouped by waiting node
    std::vector<int> edge_begin_;  // per node, into edges_
};

}  // namespace escalier::schedule
