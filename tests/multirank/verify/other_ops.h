// A backend with some of its ops replaced, for faults that are planted in one of them.
#pragma once

#include <string>
#include <vector>

#include "tests/multirank/verify/verified_job.h"

namespace escalier::train {

// Where the rank that runs an op stands, as long as with_ops() runs.
const parallel::GridPlace& op_place();

struct OtherOps {
    kernels::EmbeddingForward* embedding_forward = kernels::cpu_ops().embedding_forward;
    kernels::EmbeddingBackward* embedding_backward = kernels::cpu_ops().embedding_backward;
    kernels::PositionForward* position_forward = kernels::cpu_ops().position_forward;
    kernels::ResidualLayernormForward* residual_layernorm_forward =
        kernels::cpu_ops().residual_layernorm_forward;
    kernels::LinearBackwardWeight* linear_backward_weight = kernels::cpu_ops().linear_backward_weight;
    kernels::AttentionForward* attention_forward = kernels::cpu_ops().attention_forward;
    kernels::CrossEntropyStatistics* cross_entropy_statistics = kernels::cpu_ops().cross_entropy_statistics;
    kernels::CrossEntropyFinish* cross_entropy_finish = kernels::cpu_ops().cross_entropy_finish;
    kernels::SumLosses* sum_losses = kernels::cpu_ops().sum_losses;
    kernels::Dropout* dropout = kernels::cpu_ops().dropout;
    kernels::ResidualAdd* residual_add = kernels::cpu_ops().residual_add;
    kernels::AdamwStep* adamw_step = kernels::cpu_ops().adamw_step;
};

// The second grid computes with these ops. Ops are functions without state, so it is one run at a time.
VerifyResult with_ops(const std::string& model, const std::vector<std::string>& a,
                      const std::vector<std::string>& b, const OtherOps& other,
                      const AssemblyHooks& more = {});

}  // namespace escalier::train
