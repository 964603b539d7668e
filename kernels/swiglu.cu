// Forward: reads 2 R F elements and writes R F. Backward: reads 3 R F and writes 2 R F. Floor: those bytes at
// the speed of memory, of which 90 % is expected.
#include "kernels/swiglu.h"

#include "kernels/common/cuda_chunks.h"
#include "kernels/common/cuda_twins.h"

namespace escalier::kernels::cuda {
namespace {

constexpr int threads = 256;

__device__ __forceinline__ float sigmoid(float z) {
    return 1.0f / (1.0f + expf(-z));
}

// Where the chunk of this thread lies.
struct Place {
    bool inside;
    std::int64_t gate, up, y;  // first elements

    template <class Chunk>
    static __device__ __forceinline__ Place of_thread(unsigned rows, unsigned columns) {
        const unsigned chunks = columns / Chunk::size, at = blockIdx.x * threads + threadIdx.x;
        const unsigned row = at / chunks, column = (at - row * chunks) * Chunk::size;
        const std::int64_t first = std::int64_t{row} * 2 * columns + column;
        return {row < rows, first, first + columns, std::int64_t{row} * columns + column};
    }
};

template <class Chunk, class S = ElementOf<Chunk>>
__global__ void forward_kernel(S* y, const S* gate_up, unsigned rows, unsigned columns) {
    const Place at = Place::of_thread<Chunk>(rows, columns);
    if (!at.inside) return;
    const Chunk gate = Chunk::load(gate_up + at.gate), up = Chunk::load(gate_up + at.up);
    Chunk out;
#pragma unroll
    for (int i = 0; i < Chunk::size; ++i) {
        const float z = to_float(gate[i]);
        out[i] = from_float<S>(z * sigmoid(z) * to_float(up[i]));
    }
    out.store(y + at.y);
}

template <class Chunk, class S = ElementOf<Chunk>>
__global__ void backward_kernel(S* dgate_up, const S* dy, const S* gate_up, unsigned rows, unsigned columns) {
    const Place at = Place::of_thread<Chunk>(rows, columns);
    if (!at.inside) return;
    Chunk gate = Chunk::load(gate_up + at.gate), up = Chunk::load(gate_up + at.up);
    const Chunk d = Chunk::load_streaming(dy + at.y);
#pragma unroll
    for (int i = 0; i < Chunk::size; ++i) {
        const float z = to_float(gate[i]), s = sigmoid(z), gradient = to_float(d[i]);
        gate[i] = from_float<S>(gradient * to_float(up[i]) * (s + z * s * (1.0f - s)));
        up[i] = from_float<S>(gradient * z * s);
    }
    gate.store(dgate_up + at.gate);
    up.store(dgate_up + at.up);
}

template <class Chunk>
std::int64_t blocks_for(const TensorView& y) {
    const std::int64_t chunks = y.elements() / Chunk::size;
    ESCALIER_CHECK(chunks <= INT32_MAX, "more than 2^31 vectors");
    return ceil_div(chunks, threads);
}

}  // namespace

void swiglu_forward(const OpContext& context, TensorView y, TensorView gate_up) {
    ESCALIER_CHECK(gate_up.elements() == 2 * y.elements(), "gate_up must hold gate and up");
    if (y.elements() == 0) return;
    const std::int64_t columns = columns_of(y);
    dispatch_chunk(y.dtype(), vectors_fit(y.dtype(), columns, {y, gate_up}), [&]<class Chunk>() {
        using S = ElementOf<Chunk>;
        launch(forward_kernel<Chunk>, blocks_for<Chunk>(y), dim3(threads), 0, context.queue().stream,
               data_as<S>(y), data_as<S>(gate_up), static_cast<unsigned>(rows_of(y)),
               static_cast<unsigned>(columns));
    });
}

void swiglu_backward(const OpContext& context, TensorView dgate_up, TensorView dy, TensorView gate_up) {
    ESCALIER_CHECK(gate_up.elements() == 2 * dy.elements(), "gate_up must hold gate and up");
    ESCALIER_CHECK(dgate_up.elements() == gate_up.elements(), "shapes differ");
    if (dy.elements() == 0) return;
    const std::int64_t columns = columns_of(dy);
    dispatch_chunk(dy.dtype(), vectors_fit(dy.dtype(), columns, {dgate_up, dy, gate_up}), [&]<class Chunk>() {
        using S = ElementOf<Chunk>;
        launch(backward_kernel<Chunk>, blocks_for<Chunk>(dy), dim3(threads), 0, context.queue().stream,
               data_as<S>(dgate_up), data_as<S>(dy), data_as<S>(gate_up), static_cast<unsigned>(rows_of(dy)),
               static_cast<unsigned>(columns));
    });
}

}  // namespace escalier::kernels::cuda
