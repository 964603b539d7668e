// Sums over whole tensors. A tensor is cut into blocks by its length alone; a block's sum goes into scratch,
// and the blocks' sums are added in order. Bytes: each element once, 4 B; floor: those at the speed of
// memory, of which 85 % is expected (all gradients of gpt2-124m: 498 MB, 116 us).
#include "kernels/common/cuda_tensor_list.h"
#include "kernels/common/cuda_twins.h"
#include "kernels/elementwise.h"

namespace escalier::kernels::cuda {
namespace {

constexpr std::int64_t least_elements = 16384;  // of a block
constexpr int width = Vector<float>::size;

std::int64_t blocks_for(std::int64_t n) {
    return std::clamp<std::int64_t>(ceil_div(n, least_elements), 1, sum_blocks);
}

// The sum over the piece of x that block `block` of `blocks` has, of f(element), in every thread of the
// block.
template <class Sum, class F>
__device__ __forceinline__ Sum sum_of_piece(const float* x, std::int64_t n, int block, int blocks,
                                            Sum* shared, F f) {
    const std::int64_t quads = (n + width - 1) / width, per_block = (quads + blocks - 1) / blocks;
    const std::int64_t end = (block + 1) * per_block < quads ? (block + 1) * per_block : quads;
    const bool aligned = reinterpret_cast<std::uintptr_t>(x) % sizeof(Vector<float>) == 0;
    Sum sum = 0;
#pragma unroll 4
    for (std::int64_t quad = block * per_block + threadIdx.x; quad < end; quad += sweep_threads) {
        const Vector<float> values = load_up_to_four(x + quad * width, n - quad * width, aligned);
#pragma unroll
        for (int i = 0; i < width; ++i) sum += f(values[i]);  // of zero, past the end: nothing
    }
    return block_sum(sum, shared);
}

struct SquaresList {
    BlockList blocks;
    const float* x[tensors_per_launch];
    std::int64_t elements[tensors_per_launch];
};
struct SumPlaces {
    BlockList blocks;
    std::int64_t place[tensors_per_launch];
};

__global__ void __launch_bounds__(sweep_threads) squares_kernel(double* parts, SquaresList list) {
    __shared__ double shared[32];
    const int tensor = list.blocks.tensor(), first = list.blocks.first_block[tensor];
    const double sum =
        sum_of_piece(list.x[tensor], list.elements[tensor], static_cast<int>(blockIdx.x) - first,
                     list.blocks.first_block[tensor + 1] - first, shared, [](float value) {
                         const auto wide = static_cast<double>(value);
                         return wide * wide;
                     });
    if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}
// One warp to a tensor.
__global__ void square_parts_kernel(double* sums, const double* parts, SumPlaces list) {
    const int tensor = static_cast<int>(blockIdx.x);
    double sum = 0.0;
    for (int i = list.blocks.first_block[tensor] + lane_of_warp(); i < list.blocks.first_block[tensor + 1];
         i += 32)
        sum += parts[i];
    sum = warp_sum(sum);
    if (threadIdx.x == 0) sums[list.place[tensor]] = sum;
}

__global__ void __launch_bounds__(sweep_threads)
    nonfinite_kernel(int* parts, const float* x, std::int64_t n) {
    __shared__ int shared[32];
    const int count = sum_of_piece(x, n, static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x), shared,
                                   [](float value) {
                                       constexpr unsigned exponent = 0x7F800000u;
                                       return (__float_as_uint(value) & exponent) == exponent ? 1 : 0;
                                   });
    if (threadIdx.x == 0) parts[blockIdx.x] = count;
}
__global__ void nonfinite_parts_kernel(double* count, const int* parts, int blocks, bool accumulate) {
    std::int64_t sum = 0;
    for (int i = lane_of_warp(); i < blocks; i += 32) sum += parts[i];
    sum = warp_sum(sum);
    if (threadIdx.x == 0) *count = (accumulate ? *count : 0.0) + static_cast<double>(sum);
}

}  // namespace

void sum_of_squares(const OpContext& context, TensorView sums, std::span<const SumTerm> terms) {
    const cudaStream_t stream = context.queue().stream;
    auto* parts = context.shared_scratch<double>(sums_scratch_bytes / sizeof(double));
    while (!terms.empty()) {
        SquaresList list{};
        SumPlaces places{};
        for (const SumTerm& term : terms.first(std::min<std::size_t>(terms.size(), tensors_per_launch))) {
            const int i = list.blocks.count;
            ESCALIER_CHECK(term.place >= 0 && term.place < sums.elements(), "a sum has no place");
            list.x[i] = term.x.as<float>();
            list.elements[i] = term.x.elements();
            places.place[i] = term.place;
            list.blocks.add(blocks_for(list.elements[i]));
        }
        places.blocks = list.blocks;
        launch(squares_kernel, list.blocks.blocks(), sweep_threads, 0, stream, parts, list);
        launch(square_parts_kernel, list.blocks.count, 32, 0, stream, sums.as<double>(), parts, places);
        terms = terms.subspan(static_cast<std::size_t>(list.blocks.count));
    }
}

void count_nonfinite(const OpContext& context, TensorView count, TensorView x, Accumulate accumulate) {
    const cudaStream_t stream = context.queue().stream;
    const std::int64_t n = x.elements(), blocks = blocks_for(n);
    int* parts = context.shared_scratch<int>(static_cast<std::size_t>(blocks));
    launch(nonfinite_kernel, blocks, sweep_threads, 0, stream, parts, x.as<float>(), n);
    launch(nonfinite_parts_kernel, 1, 32, 0, stream, count.as<double>(), parts, static_cast<int>(blocks),
           accumulate == Accumulate::add);
}

}  // namespace escalier::kernels::cuda
