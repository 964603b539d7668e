// Memory and copies. Device and pinned memory hold NaN when new; copies are checked against what was
// allocated.
//
// Like CUDA (programming guide, "API synchronization behavior"): an asynchronous copy from pageable memory
// has read its source on return, and one to pageable memory is complete; with pinned memory they run when the
// stream gets there. cudaFree waits for the device.
#include "cuda_emulation/shims/memory.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "cuda_emulation/shims/capture.h"
#include "cuda_emulation/shims/properties.h"
#include "cuda_emulation/shims/queue.h"

namespace escalier::cuda_emulation {
namespace {

struct Allocation {
    std::size_t bytes;
    int device;  // -1: pinned host memory
};
std::map<const char*, Allocation>& allocations() {
    static auto* all = new std::map<const char*, Allocation>;
    return *all;
}
constexpr int pinned = -1, pageable = -2;

// Where the bytes lie; `fits` is false if they go past the end of their allocation.
int place_of(const void* memory, std::size_t bytes, bool& fits) {
    const auto* address = static_cast<const char*>(memory);
    auto next = allocations().upper_bound(address);
    if (next == allocations().begin()) return pageable;
    const auto& [begin, allocation] = *--next;
    if (address >= begin + allocation.bytes) return pageable;
    if (address + bytes > begin + allocation.bytes) fits = false;
    return allocation.device;
}

std::size_t used_memory(int device) {
    std::size_t used = 0;
    for (const auto& [begin, allocation] : allocations())
        if (allocation.device == device) used += allocation.bytes;
    return used;
}

cudaError_t allocate(void** memory, std::size_t bytes, int device) {
    *memory = nullptr;
    if (forbidden_while_capturing()) return cudaErrorStreamCaptureUnsupported;
    if (bytes == 0) return cudaSuccess;
    if (device >= 0 && used_memory(device) + bytes > device_memory()) return cudaErrorMemoryAllocation;
    if (posix_memalign(memory, 512, bytes) != 0) return cudaErrorMemoryAllocation;
    std::memset(*memory, 0xFF, bytes);
    allocations()[static_cast<const char*>(*memory)] = {bytes, device};
    return cudaSuccess;
}

cudaError_t release(Queues& queues, Lock& lock, void* memory, bool on_device) {
    if (!memory) return cudaSuccess;
    if (forbidden_while_capturing()) return cudaErrorStreamCaptureUnsupported;
    const auto found = allocations().find(static_cast<const char*>(memory));
    if (found == allocations().end() || (found->second.device >= 0) != on_device)
        return cudaErrorInvalidValue;
    queues.finish_device(lock, on_device ? found->second.device : current_device());
    allocations().erase(static_cast<const char*>(memory));
    std::free(memory);
    return cudaSuccess;
}

bool matches(cudaMemcpyKind kind, int to, int from) {
    switch (kind) {
        case cudaMemcpyHostToHost:
            return to < 0 && from < 0;
        case cudaMemcpyHostToDevice:
            return to >= 0 && from < 0;
        case cudaMemcpyDeviceToHost:
            return to < 0 && from >= 0;
        case cudaMemcpyDeviceToDevice:
            return to >= 0 && from >= 0;
        case cudaMemcpyDefault:
            return true;
    }
    return false;
}

void wait_for_stream(Queues& queues, Lock& lock, CUstream_st& stream) {
    if (stream.operations.empty()) return;
    const std::shared_ptr<Completion> last = stream.operations.back().completion;
    queues.finish(lock, &stream, [&] { return last->done; });
}

cudaError_t copy(Queues& queues, Lock& lock, void* to, const void* from, std::size_t bytes,
                 cudaMemcpyKind kind, cudaStream_t handle, bool synchronous) {
    CUstream_st* stream = queues.find(handle, current_device());
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (bytes == 0) return cudaSuccess;
    bool fits = true;
    const int to_place = place_of(to, bytes, fits), from_place = place_of(from, bytes, fits);
    if (!fits || !matches(kind, to_place, from_place)) return cudaErrorInvalidValue;
    const bool staged = from_place == pageable, waits = to_place == pageable ||
                                                        (synchronous && from_place < 0) ||
                                                        (synchronous && to_place < 0);
    if (synchronous ? forbidden_while_capturing() : stream->capture && (staged || waits)) {
        if (stream->capture) stream->capture->invalid = true;
        return cudaErrorStreamCaptureUnsupported;
    }
    if (staged) {
        const auto* begin = static_cast<const char*>(from);
        queues.submit(*stream, [to, bytes, held = std::vector<char>(begin, begin + bytes)] {
            std::memcpy(to, held.data(), bytes);
            return Progress::done;
        });
    } else {
        queues.submit(*stream, [=] {
            std::memmove(to, from, bytes);
            return Progress::done;
        });
    }
    if (waits) wait_for_stream(queues, lock, *stream);
    return cudaSuccess;
}

cudaError_t set(Queues& queues, void* to, int value, std::size_t bytes, cudaStream_t handle) {
    CUstream_st* stream = queues.find(handle, current_device());
    if (!stream) return cudaErrorInvalidResourceHandle;
    bool fits = true;
    if (bytes > 0 && (place_of(to, bytes, fits) == pageable || !fits)) return cudaErrorInvalidValue;
    queues.submit(*stream, [=] {
        std::memset(to, value, bytes);
        return Progress::done;
    });
    return cudaSuccess;
}

}  // namespace

bool reachable_by_device(const void* memory, std::size_t bytes) {
    bool fits = true;
    return place_of(memory, bytes, fits) != pageable && fits;
}

}  // namespace escalier::cuda_emulation

using namespace escalier::cuda_emulation;

extern "C" {

cudaError_t cudaMalloc(void** memory, size_t bytes) {
    return call([&](Queues&, Lock&) { return allocate(memory, bytes, current_device()); });
}
cudaError_t cudaFree(void* memory) {
    return call([&](Queues& queues, Lock& lock) { return release(queues, lock, memory, true); });
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
    return call([&](Queues&, Lock&) { return allocate(memory, bytes, pinned); });
}
cudaError_t cudaMallocHost(void** memory, size_t bytes) {
    return cudaHostAlloc(memory, bytes, 0);
}
cudaError_t cudaFreeHost(void* memory) {
    return call([&](Queues& queues, Lock& lock) { return release(queues, lock, memory, false); });
}
cudaError_t cudaHostRegister(void* memory, size_t bytes, unsigned) {
    return call([&](Queues&, Lock&) {
        allocations()[static_cast<const char*>(memory)] = {bytes, pinned};
        return cudaSuccess;
    });
}
cudaError_t cudaHostUnregister(void* memory) {
    return call([&](Queues&, Lock&) {
        return allocations().erase(static_cast<const char*>(memory)) ? cudaSuccess : cudaErrorInvalidValue;
    });
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
    return call(
        [&](Queues& queues, Lock& lock) { return copy(queues, lock, to, from, bytes, kind, stream, false); });
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    return call(
        [&](Queues& queues, Lock& lock) { return copy(queues, lock, to, from, bytes, kind, nullptr, true); });
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
    return call([&](Queues& queues, Lock&) { return set(queues, to, value, bytes, stream); });
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
    return cudaMemsetAsync(to, value, bytes, nullptr);
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
    return call([&](Queues&, Lock&) {
        *total = device_memory();
        *free = *total - used_memory(current_device());
        return cudaSuccess;
    });
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
    return call([&](Queues&, Lock&) {
        bool fits = true;
        const int place = place_of(pointer, 1, fits);
        *attributes = {};
        attributes->type = place == pageable ? cudaMemoryTypeUnregistered
                           : place == pinned ? cudaMemoryTypeHost
                                             : cudaMemoryTypeDevice;
        attributes->device = place < 0 ? current_device() : place;
        attributes->devicePointer = place == pageable ? nullptr : const_cast<void*>(pointer);
        attributes->hostPointer = place < 0 ? const_cast<void*>(pointer) : nullptr;
        return cudaSuccess;
    });
}
}
