// Updates of this rank's parameters. Weights that tied entries share are updated once, from the first entry's
// gradient (see completion.h); weight decay acts on entries with `decay` only (matrices).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "config/job_spec.h"
#include "device/arena.h"
#include "kernels/ops.h"
#include "model/parameter.h"

namespace escalier::optim {

class Optimizer {
 public:
    virtual ~Optimizer() = default;
    // gradient_scale: the clip coefficient. step_number: from 1, for the bias correction.
    virtual void step(const OpContext& context, double lr, float gradient_scale,
                      std::int64_t step_number) = 0;
    // What it updates, with the moments that it keeps; in the order of updated_entries().
    virtual const std::vector<kernels::OptimizerTensor>& tensors() const = 0;
};

// Takes the state from `arena`: two moments per updated element for adamw, nothing for sgd.
std::unique_ptr<Optimizer> make_optimizer(const config::OptimizerConfig& config,
                                          const model::ParameterList& parameters, const kernels::Ops& ops,
                                          device::Arena& arena);

// The entries that an optimizer updates: with elements, and the first only of those that share a weight, with
// the shadow that any of them has.
model::ParameterList updated_entries(const model::ParameterList& parameters);
// Without moments.
kernels::OptimizerTensor optimizer_tensor(const model::Parameter& parameter);

std::unique_ptr<Optimizer> make_adamw(const config::OptimizerConfig& config,
                                      const model::ParameterList& parameters, const kernels::Ops& ops,
                                      device::Arena& arena);
std::unique_ptr<Optimizer> make_sgd(const config::OptimizerConfig& config,
                                    const model::ParameterList& parameters, const kernels::Ops& ops);

}  // namespace escalier::optim
