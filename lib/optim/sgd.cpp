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
            tensors_.push_back(optimizer_tensor(parameter));
    }

    void step(const OpContext& context, double lr, float gradient_scale, std::int64_t) override {
        ops_.sgd_step(context, tensors_, {static_cast<float>(lr), weight_decay_, gradient_scale});
    }

    const std::vector<kernels::OptimizerTensor>& tensors() const override { return tensors_; }

 private:
    float weight_decay_;
    const kernels::Ops& ops_;
    std::vector<kernels::OptimizerTensor> tensors_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const config::OptimizerConfig& config,
                                    const model::ParameterList& parameters, const kernels::Ops& ops) {
    return std::make_unique<Sgd>(config, parameters, ops);
}

}  // namespace escalier::optim
