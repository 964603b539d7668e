// Matrix products on tensor cores between tiles in shared memory and fragments in registers, all bf16 with
// fp32 accumulation: the building blocks of attention. A warp owns 16 rows per m-tile of a product.
//
// Fragments of mma.m16n8k16 (PTX ISA, "Matrix fragments for mma.m16n8k16"), with g = lane / 4 and t = lane %
// 4: an accumulator holds (row g, columns 2t, 2t+1) and (row g + 8, the same columns) of an 8 columns wide
// piece. Two neighbouring pieces, rounded to bf16, are the A operand of a following product as they lie.
#pragma once

#include "kernels/common/cuda.h"

namespace escalier::kernels::cuda {

// Rows of `width` bf16, 16 bytes of padding after each: the eight rows that ldmatrix reads at once lie in
// different banks, and every address is one register and a constant.
template <int width>
struct SharedTile {
    static_assert(width % 64 == 0, "rows must be an odd number of 16-byte chunks apart");
    static constexpr int chunks = width / 8, stride = width + 8;
    static constexpr int elements(int rows) { return rows * stride; }
    __nv_bfloat16* data;

    __device__ __forceinline__ __nv_bfloat16* chunk(int row, int index) const {
        return data + row * stride + index * 8;
    }
};

// Starts copying `rows` rows, `stride` elements apart in global memory; rows from `valid` on become zero.
template <int rows, int threads, int width>
__device__ __forceinline__ void copy_tile_async(SharedTile<width> to, const __nv_bfloat16* from, int stride,
                                                int valid) {
    constexpr int chunks = SharedTile<width>::chunks, step = threads / chunks;
    static_assert(threads % chunks == 0 && rows % step == 0);
    const int row = static_cast<int>(threadIdx.x) / chunks, column = static_cast<int>(threadIdx.x) % chunks;
    const __nv_bfloat16* source = from + (row * stride + column * 8);
#pragma unroll
    for (int i = 0; i < rows; i += step, source += step * stride) {
        const bool inside = row + i < valid;
        cp_async16(to.chunk(row + i, column), inside ? source : from, inside);
    }
}

// A operand: rows [row, row + 16), columns [16 k, 16 k + 16).
template <int width>
__device__ __forceinline__ void load_a(std::uint32_t (&a)[4], SharedTile<width> tile, int row, int k) {
    const int lane = threadIdx.x % 32;
    ldmatrix_x4(a, tile.chunk(row + lane % 16, 2 * k + lane / 16));
}
// B operands of two n-tiles from a tile that holds B transposed: rows [row, row + 16) are the columns of B.
template <int width>
__device__ __forceinline__ void load_b_transposed(std::uint32_t (&b)[4], SharedTile<width> tile, int row,
                                                  int k) {
    const int lane = threadIdx.x % 32;
    ldmatrix_x4(b, tile.chunk(row + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
}
// B operands of n-tiles 2 n and 2 n + 1 from a tile that holds B: rows [row, row + 16) are the inner extent.
template <int width>
__device__ __forceinline__ void load_b(std::uint32_t (&b)[4], SharedTile<width> tile, int row, int n) {
    const int lane = threadIdx.x % 32;
    ldmatrix_x4_trans(b, tile.chunk(row + lane % 16, 2 * n + lane / 16));
}

// The A operands of m_tiles * 16 rows, for rows that meet many tiles.
template <int m_tiles, int width>
struct RowFragments {
    std::uint32_t at[m_tiles][width / 16][4];

    __device__ __forceinline__ void load(SharedTile<width> tile, int row) {
#pragma unroll
        for (int m = 0; m < m_tiles; ++m)
#pragma unroll
            for (int k = 0; k < width / 16; ++k) load_a(at[m][k], tile, row + 16 * m, k);
    }
    __device__ __forceinline__ void get(std::uint32_t (&a)[4], int m, int k) const {
#pragma unroll
        for (int i = 0; i < 4; ++i) a[i] = at[m][k][i];
    }
};

// A fragment of m_tiles * 16 rows and n_tiles * 8 columns.
template <int m_tiles, int n_tiles>
struct Accumulator {
    float at[m_tiles][n_tiles][4];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int m = 0; m < m_tiles; ++m)
#pragma unroll
            for (int n = 0; n < n_tiles; ++n)
#pragma unroll
                for (int i = 0; i < 4; ++i) at[m][n][i] = 0.0f;
    }
    __device__ __forceinline__ void add_pair(int m, int n, const std::uint32_t (&a)[4],
                                             const std::uint32_t (&b)[4]) {
        const std::uint32_t low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
        mma_bf16(at[m][n], a, low);
        mma_bf16(at[m][n + 1], a, high);
    }
    // Pieces 2 k and 2 k + 1 as the A operand of step k.
    __device__ __forceinline__ void as_a(std::uint32_t (&a)[4], int m, int k) const {
        const float(&low)[4] = at[m][2 * k], (&high)[4] = at[m][2 * k + 1];
        a[0] = pack_bf16(low[0], low[1]);
        a[1] = pack_bf16(low[2], low[3]);
        a[2] = pack_bf16(high[0], high[1]);
        a[3] = pack_bf16(high[2], high[3]);
    }
};

// Over the four lanes that hold a row of an accumulator.
__device__ __forceinline__ float quad_sum(float value) {
    value += __shfl_xor_sync(whole_warp, value, 1);
    return value + __shfl_xor_sync(whole_warp, value, 2);
}
__device__ __forceinline__ float quad_max(float value) {
    value = fmaxf(value, __shfl_xor_sync(whole_warp, value, 1));
    return fmaxf(value, __shfl_xor_sync(whole_warp, value, 2));
}

// c += A B^T over `width` columns. get_a(a, m, k) yields the A operand; B's rows start at `row` of its tile.
template <int m_tiles, int n_tiles, int width, class GetA>
__device__ __forceinline__ void add_product_transposed(Accumulator<m_tiles, n_tiles>& c, GetA get_a,
                                                       SharedTile<width> b, int row) {
#pragma unroll
    for (int k = 0; k < width / 16; ++k) {
        std::uint32_t a[m_tiles][4];
#pragma unroll
        for (int m = 0; m < m_tiles; ++m) get_a(a[m], m, k);
#pragma unroll
        for (int n = 0; n < n_tiles; n += 2) {
            std::uint32_t pair[4];
            load_b_transposed(pair, b, row + 8 * n, k);
#pragma unroll
            for (int m = 0; m < m_tiles; ++m) c.add_pair(m, n, a[m], pair);
        }
    }
}

// c += P B: P in registers, rounded to bf16; its columns meet the rows of B from `row` on.
template <int m_tiles, int inner_tiles, int width>
__device__ __forceinline__ void add_product(Accumulator<m_tiles, width / 8>& c,
                                            const Accumulator<m_tiles, inner_tiles>& p, SharedTile<width> b,
                                            int row) {
#pragma unroll
    for (int k = 0; k < inner_tiles / 2; ++k) {
        std::uint32_t a[m_tiles][4];
#pragma unroll
        for (int m = 0; m < m_tiles; ++m) p.as_a(a[m], m, k);
#pragma unroll
        for (int n = 0; n < width / 8; n += 2) {
            std::uint32_t pair[4];
            load_b(pair, b, row + 16 * k, n / 2);
#pragma unroll
            for (int m = 0; m < m_tiles; ++m) c.add_pair(m, n, a[m], pair);
        }
    }
}

// Writes a warp's rows [row, row + 16 m_tiles) of c times `factor`(m, half) as bf16: through `tile`, where
// the warp owns these rows, so that global memory sees 16-byte stores. Rows from `valid` on are left out.
template <int m_tiles, int width, class Factor>
__device__ __forceinline__ void store_rows(__nv_bfloat16* to, int stride, int valid, SharedTile<width> tile,
                                           int row, const Accumulator<m_tiles, width / 8>& c, Factor factor) {
    constexpr int chunks = SharedTile<width>::chunks;
    const int lane = threadIdx.x % 32;
    __syncwarp(whole_warp);
#pragma unroll
    for (int m = 0; m < m_tiles; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int n = 0; n < width / 8; ++n) {
                __nv_bfloat16* const at = tile.chunk(row + 16 * m + 8 * half + lane / 4, n) + lane % 4 * 2;
                *reinterpret_cast<std::uint32_t*>(at) = pack_bf16(c.at[m][n][2 * half] * factor(m, half),
                                                                  c.at[m][n][2 * half + 1] * factor(m, half));
            }
    __syncwarp(whole_warp);
#pragma unroll
    for (int i = 0; i < 16 * m_tiles * chunks / 32; ++i) {
        const int at = row * chunks + i * 32 + lane, from = at / chunks, column = at % chunks;
        if (from < valid)
            Vector<__nv_bfloat16>::load(tile.chunk(from, column)).store(to + (from * stride + column * 8));
    }
}

}  // namespace escalier::kernels::cuda
