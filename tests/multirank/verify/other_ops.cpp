#include "tests/multirank/verify/other_ops.h"

namespace escalier::train {

namespace {

parallel::GridPlace place;

kernels::Ops table_of(const OtherOps& other) {
    const kernels::Ops& c = kernels::cpu_ops();
    return {*other.embedding_forward,
            *other.embedding_backward,
            *other.position_forward,
            c.position_backward,
            c.layernorm_forward,
            *other.residual_layernorm_forward,
            c.layernorm_backward,
            c.rmsnorm_forward,
            c.residual_rmsnorm_forward,
            c.rmsnorm_backward,
            c.linear_forward,
            c.linear_backward_input,
            *other.linear_backward_weight,
            c.prepared_weight_elements,
            c.prepare_weight,
            c.swiglu_forward,
            c.swiglu_backward,
            c.rope_table,
            c.rope_forward,
            c.rope_backward,
            c.qk_norm_forward,
            c.qk_norm_backward,
            *other.attention_forward,
            c.attention_backward,
            *other.cross_entropy_statistics,
            *other.cross_entropy_finish,
            *other.sum_losses,
            *other.dropout,
            *other.residual_add,
            c.fill,
            c.copy,
            c.add,
            c.sum_parts,
            c.sum_of_squares,
            c.count_nonfinite,
            *other.adamw_step,
            c.sgd_step};
}

}  // namespace

const parallel::GridPlace& op_place() {
    return place;
}

VerifyResult with_ops(const std::string& model, const std::vector<std::string>& a,
                      const std::vector<std::string>& b, const OtherOps& other, const AssemblyHooks& more) {
    const kernels::Ops table = table_of(other);
    AssemblyHooks hooks = more;
    hooks.groups = [&more](parallel::Groups& groups) {
        place = groups.place;
        if (more.groups) more.groups(groups);
    };
    hooks.ops = &table;
    return verify_grids(model, a, b, hooks);
}

}  // namespace escalier::train
