// One call of an op at a model's shape: what it works on, what it puts out, and the least work that it must
// do.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "case_memory.h"
#include "core/op_context.h"
#include "kernels/ops.h"

namespace escalier::bench {

struct KernelCase {
    std::string name;
    double flops = 0;  // of its matrix products; 0: it is bound by memory alone
    double bytes = 0;  // every input read once, every output written once
    std::function<void(const OpContext&)> run;
    std::vector<TensorView> outputs;
    std::shared_ptr<CaseMemory> memory;  // of all views above
};

struct BenchShape {
    std::int64_t batch, sequence, hidden, heads, kv_heads, ffn, vocabulary;
    bool gated;  // SwiGLU, RMSNorm and RoPE in place of GELU and LayerNorm
    std::int64_t rows() const { return batch * sequence; }
    std::int64_t head_size() const { return hidden / heads; }
    std::int64_t qkv() const { return (heads + 2 * kv_heads) * head_size(); }
};

struct CaseSettings {
    BenchShape shape;
    DType storage;               // of activations and of what products read
    std::int64_t step_elements;  // of the sweeps over weights and gradients
    std::int64_t head_rows;      // rows of one chunk of the loss head
};

// Every op of a block, the head and a step. Cases that work on each other's outputs come in that order. They
// are independent of how often they are run, but for what the optimizer moves.
std::vector<KernelCase> kernel_cases(const CaseSettings& settings, const kernels::Ops& ops,
                                     device::Device& device);
void add_layer_cases(const CaseSettings& settings, const kernels::Ops& ops,
                     const std::shared_ptr<CaseMemory>& memory, std::vector<KernelCase>& cases);
void add_step_cases(const CaseSettings& settings, const kernels::Ops& ops,
                    const std::shared_ptr<CaseMemory>& memory, std::vector<KernelCase>& cases);

// The largest extents that the cases meet.
kernels::WorkExtent work_extent(const CaseSettings& settings);

}  // namespace escalier::bench
