// Work in order, at once.
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>

#include "cuda_emulation/block.h"
#include "cuda_emulation/launch.h"

namespace escalier::cuda_emulation {

void queue_kernel(const void*, dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t,
                  std::function<void()> body, std::source_location where) {
    run_grid(grid, block, shared_bytes, body, where);
}

}  // namespace escalier::cuda_emulation

extern "C" {
cudaError_t cudaGetLastError() {
    return cudaSuccess;
}
const char* cudaGetErrorName(cudaError_t) {
    return "cudaSuccess";
}
const char* cudaGetErrorString(cudaError_t) {
    return "no error";
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) {
    std::memset(to, value, bytes);
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
    std::memmove(to, from, bytes);
    return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
    std::memmove(to, from, bytes);
    return cudaSuccess;
}
cudaError_t cudaMalloc(void** memory, size_t bytes) {
    *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    std::memset(*memory, 0xFF, bytes);
    return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
    std::free(memory);
    return cudaSuccess;
}
}
