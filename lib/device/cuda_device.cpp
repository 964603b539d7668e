#include "device/cuda_device.h"

#include <nvtx3/nvToolsExt.h>
#include <sched.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <limits>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "device/cuda_devices.h"
#include "kernels/common/cuda_matmul.h"

namespace escalier::device {

using kernels::cuda::check_cuda;

namespace {

std::string gib(std::size_t bytes) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f GiB", static_cast<double>(bytes) / (1 << 30));
    return text;
}

// Selects the device before members that need it are made.
int selected(int index) {
    check_cuda(cudaSetDevice(index), "cudaSetDevice");
    return index;
}

class CudaGraph final : public Graph {
 public:
    CudaGraph(cudaGraph_t recorded, cudaStream_t stream) : stream_(stream) {
        check_cuda(cudaGraphInstantiate(&graph_, recorded, 0), "cudaGraphInstantiate");
    }
    ~CudaGraph() override { cudaGraphExecDestroy(graph_); }
    void launch() override { check_cuda(cudaGraphLaunch(graph_, stream_), "cudaGraphLaunch"); }

 private:
    cudaGraphExec_t graph_ = nullptr;
    cudaStream_t stream_;
};

// Freeing waits for the device, and the device for a rank that may be gone: while an error ends the job,
// memory is left to the end of the process.
class DeviceMemory final : public Allocator {
 public:
    explicit DeviceMemory(const CudaDevice& device) : device_(device) {}
    void* allocate(std::size_t bytes, const std::string& what) override {
        void* memory = nullptr;
        const cudaError_t code = cudaMalloc(&memory, bytes);
        if (code == cudaErrorMemoryAllocation) {
            cudaGetLastError();  // forgets it
            std::size_t free_bytes = 0, all_bytes = 0;
            cudaMemGetInfo(&free_bytes, &all_bytes);
            throw DeviceError(
                "arena " + what + ": cannot allocate " + std::to_string(bytes) + " bytes on " +
                device_.description() + ", of which " + gib(free_bytes) +
                " are free: cudaMalloc failed with cudaErrorMemoryAllocation (2). Lower "
                "train.micro_batch, set train.recompute: full, or spread the model over more ranks.");
        }
        check_cuda(code, "cudaMalloc");
        check_cuda(cudaMemsetAsync(memory, 0, bytes, device_.stream()), "cudaMemsetAsync");
        check_cuda(cudaStreamSynchronize(device_.stream()), "cudaStreamSynchronize");
        return memory;
    }
    void free(void* memory, std::size_t) noexcept override {
        if (std::uncaught_exceptions() == 0) cudaFree(memory);
    }

 private:
    const CudaDevice& device_;
};

class PinnedMemory final : public Allocator {
 public:
    void* allocate(std::size_t bytes, const std::string& what) override {
        void* memory = nullptr;
        const cudaError_t code = cudaMallocHost(&memory, bytes);
        if (code == cudaErrorMemoryAllocation) {
            cudaGetLastError();
            throw DeviceError(
                "arena " + what + ": cannot allocate " + std::to_string(bytes) +
                " bytes of pinned host memory: cudaMallocHost failed with cudaErrorMemoryAllocation (2). "
                "Start fewer ranks on this host, or raise its limit of locked memory (ulimit -l).");
        }
        check_cuda(code, "cudaMallocHost");
        std::memset(memory, 0, bytes);
        return memory;
    }
    void free(void* memory, std::size_t) noexcept override {
        if (std::uncaught_exceptions() == 0) cudaFreeHost(memory);
    }
};

}  // namespace

CudaDevice::CudaDevice(int index, bool deterministic)
    : index_(selected(index)),
      memory_(std::make_unique<DeviceMemory>(*this)),
      pinned_(std::make_unique<PinnedMemory>()),
      zero_(CudaEvent::Kind::timing),
      zero_candidate_(CudaEvent::Kind::timing) {
    cudaDeviceProp properties{};
    check_cuda(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
    name_ = properties.name;
    uuid_ = device_uuid(index);
    total_bytes_ = properties.totalGlobalMem;
    workspace_ = memory_->allocate(kernels::cuda::Matmul::workspace_bytes, "of matrix products");
    matmul_ = std::make_unique<kernels::cuda::Matmul>(workspace_, kernels::cuda::Matmul::workspace_bytes,
                                                      deterministic);
    queue_ = {stream_.get(), properties.multiProcessorCount, deterministic, matmul_.get()};
    align_clocks();
}

CudaDevice::~CudaDevice() {
    matmul_.reset();
    memory_->free(workspace_, kernels::cuda::Matmul::workspace_bytes);
}

std::string CudaDevice::description() const {
    return "GPU " + std::to_string(index_) + ", " + name_ + ", " + uuid_ + ", " + gib(total_bytes_);
}

void CudaDevice::copy_to_host(void* host, const void* device, std::size_t bytes) {
    download(host, device, bytes);
    synchronize();
}

void CudaDevice::copy_from_host(void* device, const void* host, std::size_t bytes) {
    upload(device, host, bytes);
    synchronize();
}

void CudaDevice::upload(void* device, const void* host, std::size_t bytes) {
    check_cuda(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream_.get()),
               "cudaMemcpyAsync to the device");
}

void CudaDevice::download(void* host, const void* device, std::size_t bytes) {
    check_cuda(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream_.get()),
               "cudaMemcpyAsync to the host");
}

bool CudaDevice::idle() {
    const cudaError_t code = cudaStreamQuery(stream_.get());
    if (code == cudaErrorNotReady) return false;
    check_cuda(code, "cudaStreamQuery");
    return true;
}

void CudaDevice::synchronize() {
    check_cuda(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
}

OpContext CudaDevice::op_context(ComputePool& pool, void* scratch, std::size_t bytes) {
    return OpContext(pool, scratch, bytes, queue_);
}

DeviceQueue CudaDevice::queue_on(cudaStream_t stream) const {
    return {stream, queue_.multiprocessors, queue_.deterministic, nullptr};
}

void CudaDevice::use_from_this_thread() const {
    check_cuda(cudaSetDevice(index_), "cudaSetDevice");
}

int CudaDevice::mark() {
    if (used_marks_ == static_cast<int>(marks_.size())) marks_.emplace_back(CudaEvent::Kind::timing);
    marks_[static_cast<std::size_t>(used_marks_)].record(stream_.get());
    return used_marks_++;
}

void CudaDevice::reserve_marks(std::size_t count) {
    while (marks_.size() < count) marks_.emplace_back(CudaEvent::Kind::timing);
}

double CudaDevice::seconds(int mark) {
    return zero_seconds_ + 1e-3 * marks_[static_cast<std::size_t>(mark)].milliseconds_since(zero_);
}

void CudaDevice::clear_marks() {
    used_marks_ = passed_marks_ = 0;
    align_clocks();
}

bool CudaDevice::progressed() {
    const int before = passed_marks_;
    while (passed_marks_ < used_marks_ && marks_[static_cast<std::size_t>(passed_marks_)].passed())
        ++passed_marks_;
    return passed_marks_ > before;
}

// Anew for every step: events count in fp32 milliseconds. With nothing queued an event passes within
// microseconds; where this process or its share of the GPU was taken away meanwhile, another try is closer.
void CudaDevice::align_clocks() {
    constexpr int most_tries = 10;
    constexpr double close_enough = 50e-6;  // s
    double closest = std::numeric_limits<double>::infinity();
    for (int tries = 0; tries < most_tries && closest > close_enough; ++tries) {
        const double before = now_seconds();
        zero_candidate_.record(stream_.get());
        while (!zero_candidate_.passed()) sched_yield();
        const double after = now_seconds();
        if (after - before >= closest) continue;
        closest = after - before;
        zero_seconds_ = 0.5 * (before + after);
        std::swap(zero_, zero_candidate_);
    }
}

void CudaDevice::begin_range(const char* name) {
    nvtxRangePushA(name);
}

void CudaDevice::end_range() {
    nvtxRangePop();
}

// Of this thread's calls alone: comm's progress thread goes on with its own.
std::unique_ptr<Graph> CudaDevice::capture(const std::function<void()>& work) {
    check_cuda(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal),
               "cudaStreamBeginCapture");
    cudaGraph_t recorded = nullptr;
    try {
        work();
    } catch (...) {
        cudaStreamEndCapture(stream_.get(), &recorded);
        if (recorded) cudaGraphDestroy(recorded);
        throw;
    }
    check_cuda(cudaStreamEndCapture(stream_.get(), &recorded), "cudaStreamEndCapture");
    try {
        auto graph = std::make_unique<CudaGraph>(recorded, stream_.get());
        cudaGraphDestroy(recorded);
        return graph;
    } catch (...) {
        cudaGraphDestroy(recorded);
        throw;
    }
}

}  // namespace escalier::device
