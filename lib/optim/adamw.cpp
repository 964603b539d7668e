// AdamW (Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019); the op holds the
// formula.
#include "optim/optimizer.h"

namespace escalier::optim {

namespace {

class Adamw : public Optimizer {
 public:
    Adamw(const config::OptimizerConfig& config, const model::ParameterList& parameters,
          const kernels::Ops& ops, device::Arena& arena)
        : config_(config), ops_(ops) {
        for (const model::Parameter& parameter : updated_entries(parameters)) {
            const Shape shape = parameter.weight.shape();
            kernels::OptimizerTensor tensor = optimizer_tensor(parameter);
            tensor.first_moment = arena.take(DType::f32, shape);
            tensor.second_moment = arena.take(DType::f32, shape);
            tensors_.push_back(tensor);
        }
    }

    void step(const OpContext& context, double lr, float gradient_scale, std::int64_t step_number) override {
        kernels::AdamwParameters parameters{};
        parameters.lr = static_cast<float>(lr);
        parameters.beta1 = static_cast<float>(config_.beta1);
        parameters.beta2 = static_cast<float>(config_.beta2);
        parameters.eps = static_cast<float>(config_.eps);
        parameters.weight_decay = static_cast<float>(config_.weight_decay);
        parameters.gradient_scale = gradient_scale;
        parameters.step = step_number;
        ops_.adamw_step(context, tensors_, parameters);
    }

    const std::vector<kernels::OptimizerTensor>& tensors() const override { return tensors_; }

 private:
    config::OptimizerConfig config_;
    const kernels::Ops& ops_;
    std::vector<kernels::OptimizerTensor> tensors_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adamw(const config::OptimizerConfig& config,
                                      const model::ParameterList& parameters, const kernels::Ops& ops,
                                      device::Arena& arena) {
    return std::make_unique<Adamw>(config, parameters, ops, arena);
}

}  // namespace escalier::optim
