#include "optim/optimizer.h"

#include <algorithm>

namespace escalier::optim {

model::ParameterList updated_entries(const model::ParameterList& parameters) {
    model::ParameterList updated;
    for (const model::Parameter& parameter : parameters) {
        const bool shares_earlier_weight =
            parameter.tie_group >= 0 &&
            std::any_of(updated.begin(), updated.end(), [&](const model::Parameter& other) {
                return other.tie_group == parameter.tie_group;
            });
        if (parameter.weight.elements() > 0 && !shares_earlier_weight) updated.push_back(parameter);
    }
    return updated;
}

std::unique_ptr<Optimizer> make_optimizer(const config::OptimizerConfig& config,
                                          const model::ParameterList& parameters, const kernels::Ops& ops,
                                          device::Arena& arena) {
    if (config.name == "adamw") return make_adamw(config, parameters, ops, arena);
    if (config.name == "sgd") return make_sgd(config, parameters, ops);
    throw ConfigError("optimizer.name: unknown optimizer '" + config.name + "'; known: adamw, sgd");
}

}  // namespace escalier::optim
