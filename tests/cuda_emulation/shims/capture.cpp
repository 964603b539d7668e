#include "cuda_emulation/shims/capture.h"

#include <algorithm>
#include <utility>

struct CUgraph_st {
    std::vector<escalier::cuda_emulation::GraphNode> nodes;
};
struct CUgraphExec_st {
    std::shared_ptr<const std::vector<escalier::cuda_emulation::GraphNode>> nodes;
    std::shared_ptr<escalier::cuda_emulation::Completion> last_launch;
};

namespace escalier::cuda_emulation {
namespace {

std::vector<Capture*>& active_captures() {
    static auto* captures = new std::vector<Capture*>;
    return *captures;
}

bool all_reachable(const Capture& capture, const std::vector<int>& from) {
    std::vector<bool> seen(capture.nodes.size(), false);
    std::vector<int> open = from;
    while (!open.empty()) {
        const auto node = static_cast<std::size_t>(open.back());
        open.pop_back();
        if (seen[node]) continue;
        seen[node] = true;
        open.insert(open.end(), capture.nodes[node].after.begin(), capture.nodes[node].after.end());
    }
    return std::all_of(seen.begin(), seen.end(), [](bool reached) { return reached; });
}

// One launch of a graph: its nodes in an order drawn by seed.
class GraphRun {
 public:
    GraphRun(std::shared_ptr<const std::vector<GraphNode>> nodes, std::uint64_t run_seed)
        : nodes_(std::move(nodes)), done_(nodes_->size(), false), random_(run_seed) {}

    Progress step() {
        const std::size_t count = nodes_->size();
        const std::size_t first = count && seed() != 0 ? random_() % count : 0;
        bool all_done = true;
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t index = (first + i) % count;
            const GraphNode& node = (*nodes_)[index];
            if (done_[index]) continue;
            all_done = false;
            const auto is_done = [&](int other) { return done_[static_cast<std::size_t>(other)]; };
            if (!std::all_of(node.after.begin(), node.after.end(), is_done)) continue;
            const Progress progress = node.work();
            if (progress == Progress::done) done_[index] = true;
            if (progress != Progress::waiting) return Progress::some;
        }
        return all_done ? Progress::done : Progress::waiting;
    }

 private:
    std::shared_ptr<const std::vector<GraphNode>> nodes_;
    std::vector<bool> done_;
    Random random_;
};

}  // namespace

bool forbidden_while_capturing() {
    bool forbidden = false;
    for (Capture* capture : active_captures()) {
        const bool mine = capture->thread == std::this_thread::get_id();
        if (capture->mode == cudaStreamCaptureModeGlobal ||
            (capture->mode == cudaStreamCaptureModeThreadLocal && mine))
            forbidden = capture->invalid = true;
    }
    return forbidden;
}

void capture_work(CUstream_st& stream, Work work) {
    Capture& capture = *stream.capture;
    capture.nodes.push_back({std::move(work), stream.capture_tail});
    stream.capture_tail = {static_cast<int>(capture.nodes.size()) - 1};
}

cudaError_t wait_for_captured(CUstream_st& stream, const CUevent_st& event) {
    const std::shared_ptr<Capture> capture = event.capture.lock();
    if (!capture) {
        if (!event.recorded) return cudaSuccess;
        stream.capture->invalid = true;
        return cudaErrorStreamCaptureIsolation;
    }
    if (stream.capture && stream.capture != capture) {
        stream.capture->invalid = capture->invalid = true;
        return cudaErrorStreamCaptureMerge;
    }
    if (!stream.capture) {
        stream.capture = capture;
        stream.capture_tail.clear();
        capture->joined.push_back(&stream);
    }
    for (const int node : event.captured_nodes)
        if (std::find(stream.capture_tail.begin(), stream.capture_tail.end(), node) ==
            stream.capture_tail.end())
            stream.capture_tail.push_back(node);
    return cudaSuccess;
}

namespace {

cudaError_t begin_capture(Queues& queues, cudaStream_t handle, cudaStreamCaptureMode mode) {
    if (handle == nullptr || handle == cudaStreamLegacy) return cudaErrorStreamCaptureUnsupported;
    CUstream_st* stream = queues.find(handle, current_device());
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (stream->capture) return cudaErrorIllegalState;
    stream->capture = std::make_shared<Capture>();
    stream->capture->origin = stream;
    stream->capture->mode = mode;
    stream->capture->thread = std::this_thread::get_id();
    stream->capture_tail.clear();
    active_captures().push_back(stream->capture.get());
    return cudaSuccess;
}

cudaError_t end_capture(Queues& queues, cudaStream_t handle, cudaGraph_t* graph) {
    *graph = nullptr;
    CUstream_st* stream = queues.find(handle, current_device());
    if (!stream) return cudaErrorInvalidResourceHandle;
    const std::shared_ptr<Capture> capture = stream->capture;
    if (!capture) return cudaErrorIllegalState;
    if (capture->origin != stream) return cudaErrorStreamCaptureUnmatched;
    if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id())
        return cudaErrorStreamCaptureWrongThread;
    const bool joined = all_reachable(*capture, stream->capture_tail);
    std::erase(active_captures(), capture.get());
    for (CUstream_st* other : capture->joined) other->capture.reset();
    stream->capture.reset();
    if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
    if (!joined) return cudaErrorStreamCaptureUnjoined;
    *graph = new CUgraph_st{capture->nodes};
    return cudaSuccess;
}

cudaError_t launch_graph(Queues& queues, cudaGraphExec_t graph, cudaStream_t handle) {
    CUstream_st* stream = queues.find(handle, current_device());
    if (!stream || !graph) return cudaErrorInvalidResourceHandle;
    // Launches of one executable graph never overlap.
    if (graph->last_launch && !graph->last_launch->done && !stream->capture)
        queues.wait_for(*stream, graph->last_launch);
    auto run = std::make_shared<std::unique_ptr<GraphRun>>();
    queues.submit(*stream, [run, nodes = graph->nodes] {
        if (!*run) *run = std::make_unique<GraphRun>(nodes, seed() + nodes->size());
        const Progress progress = (*run)->step();
        if (progress == Progress::done) run->reset();
        return progress;
    });
    if (!stream->capture)
        graph->last_launch = stream->operations.empty() ? nullptr : stream->operations.back().completion;
    return cudaSuccess;
}

cudaError_t instantiate(cudaGraphExec_t* executable, cudaGraph_t graph) {
    if (!graph) return cudaErrorInvalidValue;
    *executable = new CUgraphExec_st{std::make_shared<const std::vector<GraphNode>>(graph->nodes), nullptr};
    return cudaSuccess;
}

}  // namespace
}  // namespace escalier::cuda_emulation

using namespace escalier::cuda_emulation;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
    return call([&](auto& queues, auto&) { return begin_capture(queues, stream, mode); });
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
    return call([&](auto& queues, auto&) { return end_capture(queues, stream, graph); });
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
    return call([&](auto& queues, auto&) {
        const CUstream_st* found = queues.find(stream, current_device());
        if (!found) return cudaErrorInvalidResourceHandle;
        *status = !found->capture           ? cudaStreamCaptureStatusNone
                  : found->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                            : cudaStreamCaptureStatusActive;
        return cudaSuccess;
    });
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
    return call([&](auto&, auto&) { return instantiate(executable, graph); });
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph,
                                          unsigned long long) {
    return call([&](auto&, auto&) { return instantiate(executable, graph); });
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
    return call([&](auto& queues, auto&) { return launch_graph(queues, graph, stream); });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
    delete graph;
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete graph;
    return cudaSuccess;
}
// The number of nodes alone.
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
    if (!graph || nodes) return keep_error(cudaErrorInvalidValue);
    *count = graph->nodes.size();
    return cudaSuccess;
}
}
