#include "kernels/cuda_ops.h"

#include <algorithm>

#include "kernels/attention_scratch.h"
#include "kernels/common/cuda_scratch.h"
#include "kernels/common/cuda_twins.h"
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

const Ops& cuda_ops() {
    static const Ops table = {
        cuda::embedding_forward,
        cuda::embedding_backward,
        cuda::position_forward,
        cuda::position_backward,
        cuda::layernorm_forward,
        cuda::residual_layernorm_forward,
        cuda::layernorm_backward,
        cuda::rmsnorm_forward,
        cuda::residual_rmsnorm_forward,
        cuda::rmsnorm_backward,
        cuda::linear_forward,
        cuda::linear_backward_input,
        cuda::linear_backward_weight,
        cuda::prepared_weight_elements,
        cuda::prepare_weight,
        cuda::swiglu_forward,
        cuda::swiglu_backward,
        cuda::rope_table,
        cuda::rope_forward,
        cuda::rope_backward,
        cuda::qk_norm_forward,
        cuda::qk_norm_backward,
        cuda::attention_forward,
        cuda::attention_backward,
        cuda::cross_entropy_statistics,
        cuda::cross_entropy_finish,
        cuda::sum_losses,
        cuda::dropout,
        cuda::residual_add,
        cuda::fill,
        cuda::copy,
        cuda::add,
        cuda::sum_parts,
        cuda::sum_of_squares,
        cuda::count_nonfinite,
        cuda::adamw_step,
        cuda::sgd_step,
    };
    return table;
}

}  // namespace escalier::kernels
