// Devices, versions and error codes.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cuda_emulation/shims/properties.h"
#include "cuda_emulation/shims/queue.h"

namespace escalier::cuda_emulation {
namespace {

thread_local int this_threads_device = 0;
thread_local cudaError_t last_error = cudaSuccess;

long long number_from_environment(const char* name, long long otherwise) {
    const char* text = std::getenv(name);
    return text && *text ? std::atoll(text) : otherwise;
}

// As the driver reads the list: it ends at the first entry that names no device.
std::vector<int> visible_devices() {
    const int all = static_cast<int>(number_from_environment("ESCALIER_CUDA_DEVICES", 8));
    std::vector<int> visible;
    const char* list = std::getenv("CUDA_VISIBLE_DEVICES");
    if (!list) {
        for (int device = 0; device < all; ++device) visible.push_back(device);
        return visible;
    }
    std::istringstream entries(list);
    for (std::string entry; std::getline(entries, entry, ',');) {
        char* end = nullptr;
        const long device = std::strtol(entry.c_str(), &end, 10);
        if (end == entry.c_str() || device < 0 || device >= all) break;
        visible.push_back(static_cast<int>(device));
    }
    return visible;
}

struct ErrorName {
    cudaError_t code;
    const char* name;
    const char* text;
};
constexpr ErrorName error_names[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalState, "cudaErrorIllegalState",
     "the operation cannot be performed in the present state"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge",
     "operation would result in a merge of separate capture sequences"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
     "capture was not ended in the same stream as it began"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a "
     "capturing stream"},
    {cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"},
};

const ErrorName& name_of(cudaError_t error) {
    static constexpr ErrorName unknown = {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"};
    for (const ErrorName& name : error_names)
        if (name.code == error) return name;
    return unknown;
}

bool valid(int device) {
    return device >= 0 && device < device_count();
}

cudaError_t no_device() {
    return number_from_environment("ESCALIER_CUDA_DEVICES", 8) < 0 ? cudaErrorInsufficientDriver
                                                                   : cudaErrorNoDevice;
}

void bus_id(char* text, std::size_t size, int device) {
    std::snprintf(text, size, "0000:%02X:00.0", physical_device(device) + 1);
}

}  // namespace

int current_device() {
    return this_threads_device;
}
int device_count() {
    return static_cast<int>(visible_devices().size());
}
int physical_device(int device) {
    return visible_devices().at(static_cast<std::size_t>(device));
}
std::size_t device_memory() {
    return static_cast<std::size_t>(number_from_environment("ESCALIER_CUDA_MEMORY", 16ll << 30));
}

cudaError_t keep_error(cudaError_t error) {
    if (error != cudaSuccess) last_error = error;
    return error;
}

}  // namespace escalier::cuda_emulation

using namespace escalier::cuda_emulation;

extern "C" {

cudaError_t cudaGetLastError() {
    return std::exchange(last_error, cudaSuccess);
}
cudaError_t cudaPeekAtLastError() {
    return last_error;
}
const char* cudaGetErrorName(cudaError_t error) {
    return name_of(error).name;
}
const char* cudaGetErrorString(cudaError_t error) {
    return name_of(error).text;
}

cudaError_t cudaGetDeviceCount(int* count) {
    if (device_count() == 0) return keep_error(no_device());
    *count = device_count();
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
    if (!valid(device)) return keep_error(device_count() ? cudaErrorInvalidDevice : no_device());
    this_threads_device = device;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
    *device = this_threads_device;
    return cudaSuccess;
}
cudaError_t cudaSetDeviceFlags(unsigned) {
    return cudaSuccess;
}
cudaError_t cudaDeviceReset() {
    return cudaDeviceSynchronize();
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
    if (!valid(device)) return keep_error(cudaErrorInvalidDevice);
    bus_id(text, static_cast<std::size_t>(size), device);
    return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
    if (!valid(device) || !valid(peer)) return keep_error(cudaErrorInvalidDevice);
    *can = device != peer;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
    if (!valid(device)) return keep_error(cudaErrorInvalidDevice);
    *properties = {};
    std::snprintf(properties->name, sizeof properties->name, "Emulated GPU");
    char host[64] = {};
    gethostname(host, sizeof host - 1);
    std::memcpy(properties->uuid.bytes, host, std::min(std::strlen(host), std::size_t{15}));
    properties->uuid.bytes[15] = static_cast<char>(physical_device(device));
    properties->totalGlobalMem = device_memory();
    properties->sharedMemPerBlock = always_shared_bytes;
    properties->sharedMemPerBlockOptin = most_shared_bytes;
    properties->sharedMemPerMultiprocessor = most_shared_bytes + 1024;
    properties->reservedSharedMemPerBlock = 1024;
    properties->regsPerBlock = properties->regsPerMultiprocessor = 65536;
    properties->warpSize = 32;
    properties->maxThreadsPerBlock = 1024;
    properties->maxThreadsPerMultiProcessor = 2048;
    properties->maxBlocksPerMultiProcessor = 32;
    const int block[3] = {1024, 1024, 64}, grid[3] = {0x7fffffff, 65535, 65535};
    std::copy_n(block, 3, properties->maxThreadsDim);
    std::copy_n(grid, 3, properties->maxGridSize);
    properties->major = 9;
    properties->multiProcessorCount = multiprocessors;
    properties->l2CacheSize = 50 << 20;
    properties->asyncEngineCount = 3;
    properties->concurrentKernels = properties->unifiedAddressing = properties->canMapHostMemory = 1;
    properties->pciBusID = physical_device(device) + 1;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
    cudaDeviceProp properties;
    if (const cudaError_t error = cudaGetDeviceProperties(&properties, device)) return error;
    switch (attribute) {
        case cudaDevAttrMultiProcessorCount:
            *value = properties.multiProcessorCount;
            return cudaSuccess;
        case cudaDevAttrComputeCapabilityMajor:
            *value = properties.major;
            return cudaSuccess;
        case cudaDevAttrComputeCapabilityMinor:
            *value = properties.minor;
            return cudaSuccess;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin:
            *value = static_cast<int>(most_shared_bytes);
            return cudaSuccess;
        case cudaDevAttrClockRate:
            *value = 1980000;
            return cudaSuccess;
        default:
            return keep_error(cudaErrorInvalidValue);
    }
}
cudaError_t cudaDriverGetVersion(int* version) {
    *version = number_from_environment("ESCALIER_CUDA_DEVICES", 8) < 0 ? 0 : CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
}
