#include "optim/optimizer.h"

#include <algorithm>

namespace escalier::optim {

model::ParameterList updated_entries(const model::ParameterList& parameters) {
    model::ParameterList updated;
    for (const model::Parameter& parameter : parameters) {
        if (parameter.weight.elements() == 0) continue;
        const auto sharing = parameter.tie_group < 0
                                 ? updated.end()
                                 : std::find_if(updated.begin(), updated.end(), [&](const auto& other) {
                                       return other.tie_group == parameter.tie_group;
                                   });
        if (sharing == updated.end())
            updated.push_back(parameter);
        else if (parameter.shadow.elements() > 0)
            sharing->shadow = parameter.shadow;
    }
    return updated;
}

kernels::OptimizerTensor optimizer_tensor(const model::Parameter& parameter) {
    return {parameter.weight, parameter.gradient, {}, {}, parameter.shadow, parameter.decay};
}

std::unique_ptr<Optimizer> make_optimizer(const config::OptimizerConfig& config,
                                          const model::ParameterList& parameters, const kernels::Ops& ops,
                                          device::Arena& arena) {
    if (config.name == "adamw") return make_adamw(config, parameters, ops, arena);
    if (config.name == "sgd") return make_sgd(config, parameters, ops);
    throw ConfigError("optimizer.name: unknown optimizer '" + config.name + "'; known: adamw, sgd");
}

}  // namespace escalier::optim
