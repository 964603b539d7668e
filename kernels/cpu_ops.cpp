#include "kernels/common/attention_blocks.h"
#include "kernels/common/blocks.h"
#include "kernels/common/column_sums.h"
#include "kernels/common/cpu_twins.h"

namespace escalier::kernels {

std::size_t cpu_scratch_bytes_per_thread(const WorkExtent& extent) {
    const std::int64_t elements =
        std::max({ColumnSums::scratch_elements(std::max(extent.max_columns, extent.head_size)),
                  attention_scratch_elements(extent.sequence)});
    constexpr std::int64_t alignment = 256;
    return static_cast<std::size_t>(round_up(elements * static_cast<std::int64_t>(sizeof(float)), alignment));
}

const Ops& cpu_ops() {
    static const Ops table = {
        cpu::embedding_forward,
        cpu::embedding_backward,
        cpu::position_forward,
        cpu::position_backward,
        cpu::layernorm_forward,
        cpu::residual_layernorm_forward,
        cpu::layernorm_backward,
        cpu::rmsnorm_forward,
        cpu::residual_rmsnorm_forward,
        cpu::rmsnorm_backward,
        cpu::linear_forward,
        cpu::linear_backward_input,
        cpu::linear_backward_weight,
        cpu::prepared_weight_elements,
        cpu::prepare_weight,
        cpu::swiglu_forward,
        cpu::swiglu_backward,
        cpu::rope_table,
        cpu::rope_forward,
        cpu::rope_backward,
        cpu::qk_norm_forward,
        cpu::qk_norm_backward,
        cpu::attention_forward,
        cpu::attention_backward,
        cpu::cross_entropy_statistics,
        cpu::cross_entropy_finish,
        cpu::sum_losses,
        cpu::dropout,
        cpu::residual_add,
        cpu::fill,
        cpu::copy,
        cpu::add,
        cpu::sum_parts,
        cpu::sum_of_squares,
        cpu::count_nonfinite,
        cpu::adamw_step,
        cpu::sgd_step,
    };
    return table;
}

}  // namespace escalier::kernels
