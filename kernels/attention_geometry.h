// Where the heads of attention lie in device memory, and the order in which a grid walks over their blocks.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/tensor_view.h"
#include "kernels/common/cuda.h"
#include "kernels/common/qkv_layout.h"

namespace escalier::kernels::cuda {

inline constexpr float log2_of_e = 1.4426950408889634f;

// Passed to kernels by value. Strides in elements; heads of all samples are numbered sample * heads + head.
struct AttentionGeometry {
    int batch, sequence, heads, kv_heads, head_size;
    int qkv_stride, out_stride;
    float scale;  // of the scores

    AttentionGeometry(const TensorView& qkv, std::int64_t batch_in, std::int64_t sequence_in,
                      std::int64_t heads_in, std::int64_t kv_heads_in) {
        const QkvLayout layout(qkv, heads_in, kv_heads_in);
        ESCALIER_CHECK(layout.rows == batch_in * sequence_in, "qkv must hold batch * sequence rows");
        ESCALIER_CHECK(batch_in * heads_in * sequence_in <= INT32_MAX, "more than 2^31 rows of heads");
        batch = static_cast<int>(batch_in);
        sequence = static_cast<int>(sequence_in);
        heads = static_cast<int>(heads_in);
        kv_heads = static_cast<int>(kv_heads_in);
        head_size = static_cast<int>(layout.head_size);
        qkv_stride = static_cast<int>(layout.columns);
        out_stride = static_cast<int>(heads_in * layout.head_size);
        scale = 1.0f / std::sqrt(static_cast<float>(layout.head_size));
    }
    __host__ __device__ int group() const { return heads / kv_heads; }
    // Offsets of the first element of a head of a sample.
    __device__ std::int64_t query(int sample, int head) const { return at(sample, qkv_stride, head); }
    __device__ std::int64_t key(int sample, int kv_head) const {
        return at(sample, qkv_stride, heads + kv_head);
    }
    __device__ std::int64_t value(int sample, int kv_head) const {
        return at(sample, qkv_stride, heads + kv_heads + kv_head);
    }
    __device__ std::int64_t out(int sample, int head) const { return at(sample, out_stride, head); }
    __device__ std::int64_t statistic(int sample, int head) const {
        return (static_cast<std::int64_t>(sample) * heads + head) * sequence;
    }

 private:
    __device__ std::int64_t at(int sample, int stride, int place) const {
        return static_cast<std::int64_t>(sample * sequence) * stride + place * head_size;
    }
};

// A one-dimensional grid over (block of the sequence, head of a sample). Heads come in sections that read no
// more than fits in L2 (a block rereads what the other blocks of its head read); within a section the longest
// blocks of all its heads come first.
struct AttentionOrder {
    static constexpr std::int64_t l2_bytes = 16 << 20;  // of the 40 to 50 MB of an A100, H100, H200

    int heads, blocks, section;

    // row_heads: g.heads where a block owns queries, g.kv_heads where it owns keys.
    AttentionOrder(const AttentionGeometry& g, int row_heads, int block_rows)
        : heads(g.batch * row_heads), blocks((g.sequence + block_rows - 1) / block_rows) {
        const std::int64_t bytes_per_kv_head = std::int64_t{4} * g.sequence * g.head_size;
        const std::int64_t heads_in_l2 = row_heads == g.heads ? l2_bytes * g.group() / bytes_per_kv_head
                                                              : l2_bytes / (bytes_per_kv_head * g.group());
        section = static_cast<int>(std::clamp<std::int64_t>(heads_in_l2, 1, heads));
    }
    dim3 grid() const { return dim3(static_cast<unsigned>(heads) * static_cast<unsigned>(blocks)); }

    struct Place {
        int head, rank;  // rank 0 is the longest block
    };
    // Of a block of the grid.
    __host__ __device__ Place place(int index) const {
        const int first = index / (section * blocks) * section, rest = index - first * blocks;
        const int width = heads - first < section ? heads - first : section;
        return {first + rest % width, rest / width};
    }
    __device__ Place place() const { return place(static_cast<int>(blockIdx.x)); }
};

}  // namespace escalier::kernels::cuda
