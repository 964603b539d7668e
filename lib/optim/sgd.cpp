// Plain stochastic gradient descent: no momentum, no state.
#include "optim/optimizer.h"

namespace escalier::optim {

namespace {

class Sgd : public Optimizer {
 public:
    Sgd(const config::OptimizerConfig& config, const model::ParameterList& parameters,
        const kernels::Ops& ops)
        : weight_decay_(static_cast<float>(config.weight_decay)), ops_(ops) {
        for (const model::Parameter& parameter : updated_entries(parameters))
            entries_.push_back({parameter.weight, parameter.gradient, parameter.decay});
    }

    void step(const OpContext& context, double lr, float gradient_scale, std::int64_t) override {
        for (const Entry& entry : entries_)
            ops_.sgd_step(context, entry.weight, entry.gradient,
                          {static_cast<float>(lr), entry.decay ? weight_decay_ : 0.0f, gradient_scale});
    }

 private:
    struct Entry {
        TensorView weight;
        TensorView gradient;
        bool decay;
    };
    float weight_decay_;
    const kernels::Ops& ops_;
    std::vector<Entry> entries_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const config::OptimizerConfig& config,
                                    const model::ParameterList& parameters, const kernels::Ops& ops) {
    return std::make_unique<Sgd>(config, parameters, ops);
}

}  // namespace escalier::optim
