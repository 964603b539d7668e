// Streams and events as owners. Failures are DeviceErrors with call, code and place; destructors ignore them:
// after a sticky error every call fails, and the job is ending.
#pragma once

#include <cuda_runtime_api.h>

#include <utility>

#include "kernels/common/cuda_check.h"

namespace escalier::device {

// A queue of the device that orders itself with no other one. urgent: its work goes before that of other
// streams when both could start.
class CudaStream {
 public:
    explicit CudaStream(bool urgent = false) {
        int least = 0, greatest = 0;
        kernels::cuda::check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest),
                                  "cudaDeviceGetStreamPriorityRange");
        kernels::cuda::check_cuda(
            cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, urgent ? greatest : least),
            "cudaStreamCreateWithPriority");
    }
    ~CudaStream() { cudaStreamDestroy(stream_); }
    CudaStream(const CudaStream&) = delete;
    CudaStream& operator=(const CudaStream&) = delete;
    cudaStream_t get() const { return stream_; }

 private:
    cudaStream_t stream_ = nullptr;
};

// A place in a stream. Recorded again, it stands for the new place; who waited for the old one still does.
class CudaEvent {
 public:
    enum class Kind { order, timing };
    explicit CudaEvent(Kind kind = Kind::order) {
        kernels::cuda::check_cuda(
            cudaEventCreateWithFlags(&event_,
                                     kind == Kind::order ? cudaEventDisableTiming : cudaEventDefault),
            "cudaEventCreateWithFlags");
    }
    ~CudaEvent() {
        if (event_) cudaEventDestroy(event_);
    }
    CudaEvent(CudaEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
    CudaEvent& operator=(CudaEvent&& other) noexcept {
        std::swap(event_, other.event_);
        return *this;
    }

    void record(cudaStream_t stream) {
        kernels::cuda::check_cuda(cudaEventRecord(event_, stream), "cudaEventRecord");
    }
    // Work queued on `stream` from now on waits until the recorded place is passed.
    void hold(cudaStream_t stream) const {
        kernels::cuda::check_cuda(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent");
    }
    // Polls; true before the first record() too.
    bool passed() const {
        const cudaError_t code = cudaEventQuery(event_);
        if (code == cudaErrorNotReady) return false;
        kernels::cuda::check_cuda(code, "cudaEventQuery");
        return true;
    }
    // Milliseconds from `begin` to this one, both timing events that were passed.
    double milliseconds_since(const CudaEvent& begin) const {
        float milliseconds = 0;
        kernels::cuda::check_cuda(cudaEventElapsedTime(&milliseconds, begin.event_, event_),
                                  "cudaEventElapsedTime");
        return milliseconds;
    }

 private:
    cudaEvent_t event_ = nullptr;
};

}  // namespace escalier::device
