// A sum over the ranks of a NCCL communicator, queued on one stream.
//
// In rank order (run.deterministic) it is done in three steps: every rank gets all parts of its piece of the
// tensor, adds them in rank order, and sends the result to all. Each rank sends and receives 2 (P-1)/P of the
// tensor, which is what a ring moves too; what it costs beside a ring's is one more pass over a P-th of the
// tensor in memory. Not in order, NCCL chooses.
#pragma once

#include <nccl.h>

#include "core/op_context.h"
#include "core/tensor_view.h"
#include "kernels/elementwise.h"

namespace escalier::comm {

struct NcclSum {
    ncclComm_t comm;
    int rank;
    int size;
    bool in_rank_order;
    kernels::SumParts& sum_parts;

    // Elements of x's type.
    std::int64_t scratch_elements(std::int64_t elements) const;
    // x: f32 or bf16, on every rank. on: whose queue to use. scratch: untouched until it has run.
    void queue(TensorView x, TensorView scratch, const OpContext& on) const;
};

}  // namespace escalier::comm
