#include "kernels/cuda_ops.h"

#include "kernels/common/cuda_twins.h"

namespace escalier::kernels {

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
