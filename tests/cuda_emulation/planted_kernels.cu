#include "cuda_emulation/planted_kernels.h"

#include "kernels/common/cuda.h"

namespace escalier::test {
namespace {

using namespace kernels::cuda;

constexpr int threads = planted_threads;

__device__ int thread() {
    return static_cast<int>(threadIdx.x);
}

// ---- order

__global__ void reverse_block(bool planted, float* out, const float* in) {
    __shared__ float tile[threads];
    tile[threads - 1 - thread()] = in[threads - 1 - thread()];
    if (!planted) __syncthreads();
    out[thread()] = tile[thread()];
}

template <bool shuffles>
__global__ void reverse_warp(bool planted, float* out, const float* in) {
    __shared__ float tile[threads];
    const int mirrored = thread() / 32 * 32 + 31 - thread() % 32;
    tile[mirrored] = in[mirrored];
    if (!planted)
        __syncwarp(whole_warp);
    else if (shuffles)
        __shfl_xor_sync(whole_warp, 0, 1);  // exchanges values, but orders no memory
    out[thread()] = tile[thread()];
}

__global__ void wait_too_weak(bool planted, float* out, const float* in) {
    ESCALIER_DYNAMIC_SHARED(float, tile);
    if (thread() < threads / 4) cp_async16(tile + 4 * thread(), in + 4 * thread());
    cp_async_commit();
    if (planted)
        cp_async_wait<1>();
    else
        cp_async_wait<0>();
    __syncthreads();
    out[thread()] = tile[thread()];
}

// A copy into memory that others still read.
__global__ void copy_too_early(bool planted, float* out, const float* in) {
    ESCALIER_DYNAMIC_SHARED(float, tile);
    tile[thread()] = in[thread()];
    __syncthreads();
    out[thread()] = tile[threads - 1 - thread()] + 2 * static_cast<float>(thread()) - (threads - 1);
    if (!planted) __syncthreads();
    if (thread() < threads / 4) cp_async16(tile + 4 * thread(), in + threads + 4 * thread());
    cp_async_commit();
    cp_async_wait<0>();
}

// All threads add to one number.
__global__ void count_threads(bool planted, float* out, const float* in) {
    __shared__ int count;
    if (thread() == 0) count = 0;
    __syncthreads();
    if (planted)
        ++count;
    else
        atomicAdd(&count, 1);
    __syncthreads();
    out[thread()] = count > threads ? 0 : in[thread()];
}

// The parts of all blocks are put together by the block that comes last, not by the one with the highest
// number.
__global__ void last_block(bool planted, float* out, const float* in, float* parts, int* arrived) {
    __shared__ int before;
    parts[blockIdx.x * threads + thread()] = in[thread()] / 4;
    __threadfence();
    __syncthreads();
    if (thread() == 0) before = atomicAdd(arrived, 1);
    __syncthreads();
    if (planted ? blockIdx.x != gridDim.x - 1 : before != static_cast<int>(gridDim.x) - 1) return;
    float sum = 0;
    for (unsigned block = 0; block < gridDim.x; ++block) sum += parts[block * threads + thread()];
    out[thread()] = sum;
}

template <void (*kernel)(bool, float*, const float*)>
void launch_order(bool planted, float* out, const float* in, cudaStream_t stream) {
    launch(kernel, 1, threads, sizeof(float) * threads, stream, planted, out, in);
}

void launch_last_block(bool planted, float* out, const float* in, cudaStream_t stream) {
    constexpr int blocks = 4;
    void* scratch = nullptr;
    check_cuda(cudaMalloc(&scratch, sizeof(float) * blocks * threads + sizeof(int)), "cudaMalloc");
    auto* parts = static_cast<float*>(scratch);
    auto* arrived = reinterpret_cast<int*>(parts + blocks * threads);
    check_cuda(cudaMemsetAsync(arrived, 0, sizeof(int), stream), "cudaMemsetAsync");
    launch(last_block, blocks, threads, 0, stream, planted, out, in, parts, arrived);
    check_cuda(cudaFree(scratch), "cudaFree");
}

// ---- misuse

__global__ void two_barriers(float*, const float*) {
    if (thread() < 32)
        __syncthreads();
    else
        __syncthreads();
}
__global__ void barrier_after_exit(float*, const float*) {
    if (thread() == 5) return;
    __syncthreads();
}
__global__ void barrier_of_half_the_block(float* out, const float*) {
    if (thread() < 32) __syncthreads();
    out[thread()] = 0;
}
__global__ void barrier_against_warp(float*, const float*) {
    if (thread() % 32 < 16)
        __syncthreads();
    else
        __syncwarp(whole_warp);
}
__global__ void mask_with_exited_lane(float*, const float*) {
    if (thread() == 3) return;
    __syncwarp(whole_warp);
}
__global__ void mask_without_caller(float* out, const float* in) {
    out[thread()] = __shfl_sync(0xffu, in[thread()], 0);
}
__global__ void two_operations(float*, const float*) {
    if (thread() % 32 < 16)
        __syncwarp(whole_warp);
    else
        __ballot_sync(whole_warp, 1);
}
__global__ void two_masks(float*, const float*) {
    __syncwarp(thread() % 2 ? 0xffffffffu : 0x7fffffffu);
}
__global__ void source_outside_mask(float* out, const float* in) {
    if (thread() % 32 < 16) out[thread()] = __shfl_sync(0xffffu, in[thread()], 20);
}
__global__ void misaligned_vector(float* out, const float* in) {
    Vector<float>::load(in + 1).store(out + 4 * (thread() / 4));
}
__global__ void misaligned_copy(float* out, const float* in) {
    ESCALIER_DYNAMIC_SHARED(float, tile);
    cp_async16(tile + 1, in);
    out[0] = tile[0];
}

// ---- overflow

__global__ void read_past_global(float* out, const float* in) {
    out[thread()] = in[thread() + 3 * threads - 1];
}
__global__ void write_past_dynamic_shared(float* out, const float* in) {
    ESCALIER_DYNAMIC_SHARED(float, tile);
    tile[thread() + 1] = in[thread()];
    out[thread()] = tile[thread()];
}
__global__ void write_past_static_shared(float* out, const float* in) {
    __shared__ float tile[threads];
    float* const start = tile;
    start[thread() + 1] = in[thread()];
    out[thread()] = start[thread()];
}

template <void (*kernel)(float*, const float*)>
void launch_misuse(float* out, const float* in, cudaStream_t stream) {
    launch(kernel, 1, threads, sizeof(float) * threads, stream, out, in);
}

}  // namespace

const std::vector<Plant>& planted_orders() {
    static const std::vector<Plant> plants = {
        {"missing __syncthreads", &launch_order<reverse_block>},
        {"missing __syncwarp", &launch_order<reverse_warp<false>>},
        {"cp_async_wait too weak", &launch_order<wait_too_weak>},
        {"cp_async16 before others have read", &launch_order<copy_too_early>},
        {"order of blocks taken for granted", &launch_last_block}};
    return plants;
}

const std::vector<Plant>& planted_races() {
    static const std::vector<Plant> plants = {
        {"missing __syncthreads", &launch_order<reverse_block>},
        {"missing __syncwarp", &launch_order<reverse_warp<false>>},
        {"shuffle in place of __syncwarp", &launch_order<reverse_warp<true>>},
        {"cp_async16 before others have read", &launch_order<copy_too_early>},
        {"sum without atomics", &launch_order<count_threads>}};
    return plants;
}

const std::vector<Misuse>& planted_misuses() {
    static const std::vector<Misuse> misuses = {
        {"two barriers", "meet at different barriers", &launch_misuse<two_barriers>},
        {"barrier after exit", "exit", &launch_misuse<barrier_after_exit>},
        {"barrier of half the block", "exits while others of its block wait at a barrier|will never reach",
         &launch_misuse<barrier_of_half_the_block>},
        {"barrier against warp operation", "no thread can go on", &launch_misuse<barrier_against_warp>},
        {"mask with exited lane", "names a lane that has exited|waits for lanes that wait elsewhere",
         &launch_misuse<mask_with_exited_lane>},
        {"mask without caller", "lacks the calling lane", &launch_misuse<mask_without_caller>},
        {"two warp operations", "different warp operations", &launch_misuse<two_operations>},
        {"two masks", "different masks|lacks the calling lane", &launch_misuse<two_masks>},
        {"shuffle from outside the mask", "reads a lane outside its mask",
         &launch_misuse<source_outside_mask>},
        {"misaligned vector", "16-byte load from an address", &launch_misuse<misaligned_vector>},
        {"misaligned copy", "16-byte store to an address", &launch_misuse<misaligned_copy>}};
    return misuses;
}

const std::vector<Misuse>& planted_overflows() {
    static const std::vector<Misuse> overflows = {
        {"global memory", "heap-buffer-overflow", &launch_misuse<read_past_global>},
        {"dynamic shared memory", "heap-buffer-overflow", &launch_misuse<write_past_dynamic_shared>},
        {"static shared memory", "global-buffer-overflow|insufficient space",
         &launch_misuse<write_past_static_shared>}};
    return overflows;
}

}  // namespace escalier::test
