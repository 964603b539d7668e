// Streams, events, host functions and kernels: what puts work into a queue or waits for it.
#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "cuda_emulation/block.h"
#include "cuda_emulation/launch.h"
#include "cuda_emulation/shims/capture.h"
#include "cuda_emulation/shims/dropped_waits.h"
#include "cuda_emulation/shims/properties.h"
#include "cuda_emulation/shims/queue.h"

namespace escalier::cuda_emulation {
namespace {

std::map<const void*, int>& dynamic_shared_limits() {
    static auto* limits = new std::map<const void*, int>;
    return *limits;
}

bool valid_launch(dim3 grid, dim3 block) {
    const auto threads = std::uint64_t{block.x} * block.y * block.z;
    return grid.x >= 1 && grid.y >= 1 && grid.z >= 1 && grid.x <= 0x7fffffffu && grid.y <= 65535 &&
           grid.z <= 65535 && threads >= 1 && threads <= 1024 && block.z <= 64;
}

cudaError_t synchronize_stream(Queues& queues, Lock& lock, CUstream_st* stream) {
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (stream->capture || forbidden_while_capturing()) {
        if (stream->capture) stream->capture->invalid = true;
        return cudaErrorStreamCaptureUnsupported;
    }
    if (stream->operations.empty()) return cudaSuccess;
    const std::shared_ptr<Completion> last = stream->operations.back().completion;
    queues.finish(lock, stream, [&] { return last->done; });
    return cudaSuccess;
}

// An event's completion, after some work may have run; null with an error for one that a capture holds.
cudaError_t look_at(const CUevent_st& event) {
    return event.capture.lock()          ? cudaErrorCapturedEvent
           : forbidden_while_capturing() ? cudaErrorStreamCaptureUnsupported
                                         : cudaSuccess;
}

cudaError_t record_event(Queues& queues, CUevent_st& event, cudaStream_t handle) {
    CUstream_st* stream = queues.find(handle, current_device());
    if (!stream || stream->device != event.device) return cudaErrorInvalidResourceHandle;
    event.capture = stream->capture;
    if (stream->capture)
        event.captured_nodes = stream->capture_tail;
    else
        event.recorded = queues.record(*stream);
    return cudaSuccess;
}

}  // namespace

cudaError_t queue_kernel(const void* kernel, dim3 grid, dim3 block, std::size_t shared_bytes,
                         cudaStream_t handle, std::function<void()> body, std::source_location where) {
    return call([&](Queues& queues, Lock&) {
        CUstream_st* stream = queues.find(handle, current_device());
        if (!stream || stream->device != current_device()) return cudaErrorInvalidResourceHandle;
        if (!valid_launch(grid, block)) return cudaErrorInvalidConfiguration;
        const auto limit = dynamic_shared_limits().find(kernel);
        if (shared_bytes > (limit == dynamic_shared_limits().end() ? always_shared_bytes
                                                                   : static_cast<std::size_t>(limit->second)))
            return cudaErrorInvalidValue;
        queues.submit(*stream, [=, body = std::move(body)] {
            run_grid(grid, block, shared_bytes, body, where);
            return Progress::done;
        });
        return cudaSuccess;
    });
}

}  // namespace escalier::cuda_emulation

using namespace escalier::cuda_emulation;

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
    return call([&](Queues& queues, Lock&) {
        *stream = queues.create_stream(current_device(), !(flags & cudaStreamNonBlocking));
        return cudaSuccess;
    });
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
    return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
    return cudaStreamCreateWithPriority(stream, 0, 0);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    return call([&](Queues& queues, Lock&) {
        if (!stream || !queues.find(stream, current_device())) return cudaErrorInvalidResourceHandle;
        queues.destroy_stream(stream);
        return cudaSuccess;
    });
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    return call([&](Queues& queues, Lock& lock) {
        return synchronize_stream(queues, lock, queues.find(stream, current_device()));
    });
}
cudaError_t cudaStreamQuery(cudaStream_t handle) {
    return call([&](Queues& queues, Lock& lock) {
        CUstream_st* stream = queues.find(handle, current_device());
        if (!stream) return cudaErrorInvalidResourceHandle;
        if (stream->capture || forbidden_while_capturing()) return cudaErrorStreamCaptureUnsupported;
        queues.poke(lock, stream);
        return stream->operations.empty() ? cudaSuccess : cudaErrorNotReady;
    });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
    if (wait_is_dropped()) return cudaSuccess;
    return call([&](Queues& queues, Lock&) {
        CUstream_st* stream = queues.find(handle, current_device());
        if (!stream || !event) return cudaErrorInvalidResourceHandle;
        if (stream->capture || event->capture.lock()) return wait_for_captured(*stream, *event);
        if (event->recorded && !event->recorded->done) queues.wait_for(*stream, event->recorded);
        return cudaSuccess;
    });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
    return call([&](Queues&, Lock&) {
        *event = new CUevent_st;
        (*event)->device = current_device();
        (*event)->timing = !(flags & cudaEventDisableTiming);
        return cudaSuccess;
    });
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    return call([&](Queues&, Lock&) {
        delete event;
        return cudaSuccess;
    });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    return call([&](Queues& queues, Lock&) {
        return event ? record_event(queues, *event, stream) : cudaErrorInvalidResourceHandle;
    });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
    return call([&](Queues& queues, Lock& lock) {
        if (const cudaError_t error = look_at(*event)) return error;
        const std::shared_ptr<Completion> recorded = event->recorded;
        if (!recorded || recorded->done) return cudaSuccess;
        queues.poke(lock, recorded->stream);
        return recorded->done ? cudaSuccess : cudaErrorNotReady;
    });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    return call([&](Queues& queues, Lock& lock) {
        if (const cudaError_t error = look_at(*event)) return error;
        const std::shared_ptr<Completion> recorded = event->recorded;
        if (recorded && !recorded->done)
            queues.finish(lock, recorded->stream, [&] { return recorded->done; });
        return cudaSuccess;
    });
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
    return call([&](Queues&, Lock&) {
        if (!start->timing || !end->timing || !start->recorded || !end->recorded)
            return cudaErrorInvalidResourceHandle;
        if (!start->recorded->done || !end->recorded->done) return cudaErrorNotReady;
        *milliseconds =
            std::chrono::duration<float, std::milli>(end->recorded->time - start->recorded->time).count();
        return cudaSuccess;
    });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
    return call([&](Queues& queues, Lock&) {
        CUstream_st* stream = queues.find(handle, current_device());
        if (!stream) return cudaErrorInvalidResourceHandle;
        queues.submit(*stream, [&queues, function, data] {
            queues.without_lock([&] { function(data); });
            return Progress::done;
        });
        return cudaSuccess;
    });
}
cudaError_t cudaDeviceSynchronize() {
    return call([&](Queues& queues, Lock& lock) {
        if (forbidden_while_capturing()) return cudaErrorStreamCaptureUnsupported;
        queues.finish_device(lock, current_device());
        return cudaSuccess;
    });
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
    return call([&](Queues&, Lock&) {
        if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
        if (value < 0 || static_cast<std::size_t>(value) > most_shared_bytes) return cudaErrorInvalidValue;
        dynamic_shared_limits()[kernel] = std::max(value, static_cast<int>(always_shared_bytes));
        return cudaSuccess;
    });
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int block_size,
                                                                   size_t shared_bytes, unsigned) {
    const auto by_threads = static_cast<std::size_t>(2048 / std::max(block_size, 1));
    const std::size_t by_memory = (most_shared_bytes + 1024) / (shared_bytes + 1024);
    *blocks = static_cast<int>(std::min({by_threads, by_memory, std::size_t{32}}));
    return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel, int block_size,
                                                          size_t shared_bytes) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, kernel, block_size, shared_bytes,
                                                                  0);
}
}
