// A GPU as a device: its memory, pinned host memory, one stream that all ops and copies of this rank run on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/cuda_handles.h"
#include "device/device.h"
#include "kernels/common/cuda_queue.h"

namespace escalier::kernels::cuda {
class Matmul;
}

namespace escalier::device {

class CudaDevice final : public Device {
 public:
    // index: among the visible devices. Makes it the current device of the calling thread. deterministic: of
    // kernels and matrix products, same bits run to run.
    CudaDevice(int index, bool deterministic);
    ~CudaDevice() override;
    CudaDevice(const CudaDevice&) = delete;
    CudaDevice& operator=(const CudaDevice&) = delete;

    std::string description() const override;  // "GPU 0, NVIDIA H200, GPU-1b2c…, 139.8 GiB"
    const std::string& uuid() const { return uuid_; }
    bool is_host() const override { return false; }
    Allocator& allocator() override { return *memory_; }
    Allocator& host_allocator() override { return *pinned_; }

    void copy_to_host(void* host, const void* device, std::size_t bytes) override;
    void copy_from_host(void* device, const void* host, std::size_t bytes) override;
    void upload(void* device, const void* host, std::size_t bytes) override;
    void download(void* host, const void* device, std::size_t bytes) override;
    bool idle() override;
    void synchronize() override;
    OpContext op_context(ComputePool& pool, void* scratch, std::size_t bytes) override;
    int mark() override;
    void reserve_marks(std::size_t count) override;
    double seconds(int mark) override;
    void clear_marks() override;
    bool progressed() override;
    void begin_range(const char* name) override;
    void end_range() override;
    std::unique_ptr<Graph> capture(const std::function<void()>& work) override;

    cudaStream_t stream() const { return stream_.get(); }
    // The queue of another stream, for ops that use no matrix products.
    DeviceQueue queue_on(cudaStream_t stream) const;
    // Threads other than the one that made this call it once before they call CUDA.
    void use_from_this_thread() const;

 private:
    void align_clocks();

    int index_;
    std::string name_, uuid_;
    std::size_t total_bytes_ = 0;
    CudaStream stream_;
    std::unique_ptr<Allocator> memory_;
    std::unique_ptr<Allocator> pinned_;
    DeviceQueue queue_;
    void* workspace_ = nullptr;  // of matmul_
    std::unique_ptr<kernels::cuda::Matmul> matmul_;
    std::vector<CudaEvent> marks_;  // the first used_marks_ are in use
    int used_marks_ = 0;
    int passed_marks_ = 0;     // of these, as progressed() has seen
    CudaEvent zero_;           // marks are measured from here,
    double zero_seconds_ = 0;  // which was then, on the host's clock
    CudaEvent zero_candidate_;
};

}  // namespace escalier::device
