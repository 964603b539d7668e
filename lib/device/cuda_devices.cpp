#include "device/cuda_devices.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "kernels/common/cuda_check.h"

namespace escalier::device {

namespace {

std::string of_cuda(cudaError_t code) {
    return std::string(cudaGetErrorName(code)) + " (" + std::to_string(static_cast<int>(code)) +
           "): " + cudaGetErrorString(code);
}

std::map<std::string, std::vector<int>> ranks_by_device(const std::vector<DeviceChoice>& ranks) {
    std::map<std::string, std::vector<int>> by_device;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
        by_device[ranks[rank].device].push_back(static_cast<int>(rank));
    return by_device;
}

// "0, 1 and 2", long lists cut
std::string list(const std::vector<int>& ranks) {
    constexpr std::size_t shown = 8;
    std::string text;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
        if (i == shown) return text + " and " + std::to_string(ranks.size() - shown) + " more";
        text += (i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ") + std::to_string(ranks[i]);
    }
    return text;
}

}  // namespace

void set_cuda_defaults(bool several_ranks) {
    // One hardware queue per stream: a stream that waits for another rank must not hold up others.
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    // Loading a kernel at its first use may wait for kernels that run, and one of NCCL's may be waiting there
    // for a rank that waits for this one. So with several ranks all of them are loaded at the start.
    if (several_ranks) setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    // The same for NCCL's connections: they are made with the communicator, not at the first sum.
    setenv("NCCL_RUNTIME_CONNECT", "0", 0);
}

std::string cuda_problem() {
    int count = 0;
    const cudaError_t code = cudaGetDeviceCount(&count);
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    const std::string seen = visible ? std::string(" (CUDA_VISIBLE_DEVICES is \"") + visible + "\")" : "";
    cudaGetLastError();  // forgets it
    if (code == cudaErrorInsufficientDriver)
        return "there is no NVIDIA driver, or one too old for this CUDA runtime: cudaGetDeviceCount says " +
               of_cuda(code);
    if (code == cudaErrorNoDevice || (code == cudaSuccess && count == 0))
        return "the driver shows no GPU" + seen;
    if (code != cudaSuccess) return "cudaGetDeviceCount failed with " + of_cuda(code) + seen;
    return "";
}

int visible_devices() {
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

std::string device_uuid(int index) {
    cudaDeviceProp properties{};
    kernels::cuda::check_cuda(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
    std::string text = "GPU-";
    for (int i = 0; i < 16; ++i) {
        char byte[4];
        std::snprintf(byte, sizeof byte, "%02x", static_cast<unsigned char>(properties.uuid.bytes[i]));
        if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
        text += byte;
    }
    return text;
}

int distinct_devices(const std::vector<DeviceChoice>& ranks) {
    return static_cast<int>(ranks_by_device(ranks).size());
}

int most_sharers(const std::vector<DeviceChoice>& ranks) {
    std::size_t most = 0;
    for (const auto& [device, users] : ranks_by_device(ranks)) most = std::max(most, users.size());
    return static_cast<int>(most);
}

std::string sharing_problem(const std::vector<DeviceChoice>& ranks) {
    for (const auto& [device, users] : ranks_by_device(ranks)) {
        if (users.size() < 2) continue;
        const DeviceChoice& first = ranks[static_cast<std::size_t>(users[0])];
        return "ranks " + list(users) + " share " + device + " (host " + first.host + ", where rank " +
               std::to_string(users[0]) + " sees " + std::to_string(first.visible) +
               "), but every rank needs a GPU of its own. Start as many ranks on a host as it has GPUs, or "
               "set "
               "run.share_gpu: true to let them take turns.";
    }
    return "";
}

}  // namespace escalier::device
