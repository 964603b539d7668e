// Rows in pieces: a kernel is written once for a Chunk of neighbouring elements, which is a 16-byte Vector
// where rows allow it, and a Single element where a row is of odd length or begins at an odd address.
#pragma once

#include <initializer_list>

#include "kernels/common/blocks.h"
#include "kernels/common/cuda.h"
#include "kernels/common/cuda_queue.h"

namespace escalier::kernels::cuda {

// The interface of Vector<T> for one element.
template <class T>
struct Single {
    static constexpr int size = 1;
    T lanes[1];

    __device__ __forceinline__ T& operator[](int i) { return lanes[i]; }
    __device__ __forceinline__ const T& operator[](int i) const { return lanes[i]; }
    static __device__ __forceinline__ Single load(const T* from) { return {{*from}}; }
    static __device__ __forceinline__ Single load_streaming(const T* from) { return {{*from}}; }
    __device__ __forceinline__ void store(T* to) const { *to = lanes[0]; }
    __device__ __forceinline__ void store_streaming(T* to) const { *to = lanes[0]; }
};

// `count` elements as floats: 1, or as many as fill whole 16-byte vectors (then 16-byte aligned).
template <int count, class T>
__device__ __forceinline__ void load_floats(float (&out)[count], const T* from) {
    if constexpr (count == 1) {
        out[0] = to_float(*from);
    } else {
        constexpr int width = Vector<T>::size;
        static_assert(count % width == 0);
#pragma unroll
        for (int i = 0; i < count; i += width) {
            const Vector<T> part = Vector<T>::load(from + i);
#pragma unroll
            for (int j = 0; j < width; ++j) out[i + j] = to_float(part[j]);
        }
    }
}
template <int count, class T>
__device__ __forceinline__ void store_floats(T* to, const float (&values)[count]) {
    if constexpr (count == 1) {
        *to = from_float<T>(values[0]);
    } else {
        constexpr int width = Vector<T>::size;
        static_assert(count % width == 0);
#pragma unroll
        for (int i = 0; i < count; i += width) {
            Vector<T> part;
#pragma unroll
            for (int j = 0; j < width; ++j) part[j] = from_float<T>(values[i + j]);
            part.store(to + i);
        }
    }
}

// A vector [C] of fp32 or of the storage type, or none: a bias as it is stored, or as it was prepared.
template <class S>
struct Bias {
    const float* floats = nullptr;
    const S* stored = nullptr;

    __device__ __forceinline__ explicit operator bool() const { return floats || stored; }
    // values += the bias of `Chunk::size` columns from `column`.
    template <class Chunk>
    __device__ __forceinline__ void add_to(float (&values)[Chunk::size], std::int64_t column) const {
        if (floats) {
            float own[Chunk::size];
            load_floats(own, floats + column);
#pragma unroll
            for (int i = 0; i < Chunk::size; ++i) values[i] += own[i];
        } else if (stored) {
            const Chunk own = Chunk::load(stored + column);
#pragma unroll
            for (int i = 0; i < Chunk::size; ++i) values[i] += to_float(own[i]);
        }
    }
};
template <class S>
Bias<S> bias_as(const TensorView& view) {
    if (!view.has_data()) return {};
    if (view.dtype() == DType::f32) return {view.as<float>(), nullptr};
    return {nullptr, data_as<S>(view)};
}

// Host: whether rows of `columns` elements of `storage` at these addresses can be moved 16 bytes at a time.
inline bool vectors_fit(DType storage, std::int64_t columns, std::initializer_list<TensorView> views) {
    constexpr std::size_t bytes = 16;
    bool fit = static_cast<std::size_t>(columns) * size_of(storage) % bytes == 0;
    for (const TensorView& view : views)
        fit = fit && reinterpret_cast<std::uintptr_t>(view.data()) % bytes == 0;
    return fit;
}

// Host: f.operator()<Chunk>() with Chunk a Vector or a Single of the storage type.
template <class F>
void dispatch_chunk(DType storage, bool vectors, F f) {
    dispatch_storage(storage, [&]<class S>() {
        if (vectors)
            f.template operator()<Vector<S>>();
        else
            f.template operator()<Single<S>>();
    });
}
template <class Chunk>
using ElementOf = std::remove_reference_t<decltype(std::declval<Chunk>().lanes[0])>;

inline unsigned capped_blocks(const OpContext& context, std::int64_t wanted, int blocks_per_multiprocessor) {
    const std::int64_t most = std::int64_t{context.queue().multiprocessors} * blocks_per_multiprocessor;
    return static_cast<unsigned>(std::min(wanted, most));
}

// ---- Sweeps over n elements: each thread takes `sweep_chunks` chunks at a time, so many loads are in
// flight.
inline constexpr int sweep_threads = 256, sweep_chunks = 4;

// load(slot, at) for up to sweep_chunks places, then finish(slot, at) for the same ones, until all n are
// done.
template <class Chunk, class Load, class Finish>
__device__ __forceinline__ void sweep_all(std::int64_t n, Load load, Finish finish) {
    constexpr std::int64_t step = std::int64_t{sweep_threads} * Chunk::size;
    for (std::int64_t first = blockIdx.x * step * sweep_chunks; first < n;
         first += gridDim.x * step * sweep_chunks) {
        const std::int64_t own = first + std::int64_t{threadIdx.x} * Chunk::size;
#pragma unroll
        for (int slot = 0; slot < sweep_chunks; ++slot)
            if (own + slot * step < n) load(slot, own + slot * step);
#pragma unroll
        for (int slot = 0; slot < sweep_chunks; ++slot)
            if (own + slot * step < n) finish(slot, own + slot * step);
    }
}
template <class Chunk>
unsigned sweep_grid(const OpContext& context, std::int64_t n) {
    constexpr int blocks_per_multiprocessor = 8;
    return capped_blocks(context, ceil_div(n, std::int64_t{sweep_threads} * sweep_chunks * Chunk::size),
                         blocks_per_multiprocessor);
}

// ---- Rows: one warp to a row, `row_warps` rows to a block.
inline constexpr int row_warps = 8;

__device__ __forceinline__ int lane_of_warp() {
    return static_cast<int>(threadIdx.x % 32);
}

// body(row) for the rows of this warp.
template <class Body>
__device__ __forceinline__ void for_own_rows(std::int64_t rows, Body body) {
    const int warps = static_cast<int>(blockDim.x / 32);
    const std::int64_t step = std::int64_t{gridDim.x} * warps;
    for (std::int64_t row = std::int64_t{blockIdx.x} * warps + threadIdx.x / 32; row < rows; row += step)
        body(row);
}
inline unsigned row_grid(const OpContext& context, std::int64_t rows, int warps = row_warps) {
    const int blocks_per_multiprocessor = 64 / warps;  // a multiprocessor holds 64 warps
    return capped_blocks(context, ceil_div(rows, warps), blocks_per_multiprocessor);
}

// As sweep_all, over the chunks of one row by the lanes of a warp.
template <class Chunk, class Load, class Finish>
__device__ __forceinline__ void sweep_row(std::int64_t columns, Load load, Finish finish) {
    constexpr int step = 32 * Chunk::size;
    for (std::int64_t own = lane_of_warp() * Chunk::size; own < columns; own += step * sweep_chunks) {
#pragma unroll
        for (int slot = 0; slot < sweep_chunks; ++slot)
            if (own + slot * step < columns) load(slot, own + slot * step);
#pragma unroll
        for (int slot = 0; slot < sweep_chunks; ++slot)
            if (own + slot * step < columns) finish(slot, own + slot * step);
    }
}

}  // namespace escalier::kernels::cuda
