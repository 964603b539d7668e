#include "kernels/cuda_sizes.h"

#include <algorithm>

#include "kernels/attention_scratch.h"
#include "kernels/common/cuda_scratch.h"
#include "kernels/qk_norm_scratch.h"

namespace escalier::kernels {

std::size_t cuda_scratch_bytes(const WorkExtent& extent) {
    constexpr std::int64_t alignment = 256;
    const std::size_t most =
        std::max({cuda::column_sums_scratch_bytes(extent.rows, extent.max_columns), cuda::sums_scratch_bytes,
                  cuda::embedding_scratch_bytes(extent.rows),
                  cuda::attention_scratch_bytes(extent.batch, extent.sequence, extent.heads),
                  cuda::qk_norm_scratch_bytes(extent.rows, extent.head_size)});
    return static_cast<std::size_t>(round_up(static_cast<std::int64_t>(most), alignment));
}

// bf16 products read a copy of the fp32 weight.
std::int64_t cuda::prepared_weight_elements(std::int64_t n, std::int64_t k, DType storage) {
    return storage == DType::bf16 ? n * k : 0;
}

}  // namespace escalier::kernels
