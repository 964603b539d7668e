// Stream capture: work becomes nodes of a graph instead of being queued.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "cuda_emulation/shims/queue.h"

namespace escalier::cuda_emulation {

struct GraphNode {
    Work work;
    std::vector<int> after;
};

struct Capture {
    std::vector<GraphNode> nodes;
    CUstream_st* origin = nullptr;
    std::vector<CUstream_st*> joined;  // streams that came in by waiting for a captured event
    cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
    std::thread::id thread;
    bool invalid = false;
};

// Makes `stream` wait for an event that was recorded in a capture.
cudaError_t wait_for_captured(CUstream_st& stream, const CUevent_st& event);

}  // namespace escalier::cuda_emulation
