#include "optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "device/device.h"
#include "tests/unit/optim/parameters.h"

namespace escalier::optim {
namespace {

config::OptimizerConfig make(const std::string& name, double weight_decay) {
    config::OptimizerConfig config;
    config.name = name;
    config.weight_decay = weight_decay;
    return config;
}

class OptimizerTest : public ::testing::Test {
 protected:
    std::unique_ptr<Optimizer> create(const config::OptimizerConfig& config) {
        device::Arena measured("optimizer");
        make_optimizer(config, made_.list, runner_.ops, measured);
        arena_.emplace("optimizer", device_->allocator(), measured.used());
        auto optimizer = make_optimizer(config, made_.list, runner_.ops, *arena_);
        EXPECT_EQ(arena_->used(), measured.used());
        return optimizer;
    }
    void add_matrix_and_bias() {
        made_.add({13, 7}).decay = true;
        made_.add({13});
        made_.fill();
    }

    MadeParameters made_;
    OpRunner runner_;
    std::unique_ptr<device::Device> device_ = device::make_cpu_device();
    std::optional<device::Arena> arena_;
};

TEST_F(OptimizerTest, AdamwFollowsTheFormulaInDouble) {
    add_matrix_and_bias();
    const config::OptimizerConfig config = make("adamw", 0.1);
    auto optimizer = create(config);
    std::vector<std::vector<double>> weights, m, v;
    for (const model::Parameter& p : made_.list) {
        weights.emplace_back(p.weight.as<float>(), p.weight.as<float>() + p.weight.elements());
        m.emplace_back(p.weight.elements(), 0.0);
        v.emplace_back(p.weight.elements(), 0.0);
    }
    for (int step = 1; step <= 5; ++step) {
        const double lr = 0.01 * step, scale = 0.5;
        for (std::size_t e = 0; e < made_.list.size(); ++e)
            for (std::size_t i = 0; i < weights[e].size(); ++i) {
                float& gradient = made_.list[e].gradient.as<float>()[i];
                gradient = std::cos(static_cast<float>(i + e) * static_cast<float>(step));
                const double g = scale * gradient;
                m[e][i] = config.beta1 * m[e][i] + (1 - config.beta1) * g;
                v[e][i] = config.beta2 * v[e][i] + (1 - config.beta2) * g * g;
                const double corrected_m = m[e][i] / (1 - std::pow(config.beta1, step));
                const double corrected_v = v[e][i] / (1 - std::pow(config.beta2, step));
                if (made_.list[e].decay) weights[e][i] -= lr * config.weight_decay * weights[e][i];
                weights[e][i] -= lr * corrected_m / (std::sqrt(corrected_v) + config.eps);
            }
        optimizer->step(runner_.context, lr, static_cast<float>(scale), step);
        for (std::size_t e = 0; e < made_.list.size(); ++e)
            for (std::size_t i = 0; i < weights[e].size(); ++i)
                ASSERT_NEAR(made_.list[e].weight.as<float>()[i], weights[e][i], 2e-6)
                    << "step " << step << " entry " << e << " element " << i;
    }
}

TEST_F(OptimizerTest, SgdSubtractsTheScaledGradient) {
    add_matrix_and_bias();
    const std::vector<float> before = values(made_.list[1].weight);
    create(make("sgd", 0.0))->step(runner_.context, 1.0, 0.5f, 1);
    EXPECT_EQ(arena_->used(), 0u);
    for (std::size_t i = 0; i < before.size(); ++i)
        EXPECT_FLOAT_EQ(made_.list[1].weight.as<float>()[i],
                        before[i] - 0.5f * made_.list[1].gradient.as<float>()[i]);
}

TEST_F(OptimizerTest, WeightDecayActsOnMatricesOnly) {
    for (const std::string name : {"adamw", "sgd"}) {
        std::vector<std::vector<float>> results;
        for (double decay : {0.0, 1.0}) {
            made_ = MadeParameters();
            add_matrix_and_bias();
            create(make(name, decay))->step(runner_.context, 0.01, 1.0f, 1);
            for (const model::Parameter& p : made_.list) results.push_back(values(p.weight));
        }
        made_.fill();
        for (std::size_t i = 0; i < results[0].size(); ++i)
            EXPECT_NEAR(results[2][i] - results[0][i], -0.01f * made_.list[0].weight.as<float>()[i], 1e-6)
                << name;
        EXPECT_EQ(results[3], results[1]) << name;
    }
}

TEST_F(OptimizerTest, UpdatesASharedWeightOnceFromTheFirstGradient) {
    made_.add({4, 3}).tie_group = 0;
    model::Parameter& head = made_.add({4, 3});
    head.tie_group = 0;
    head.weight = made_.list[0].weight;
    made_.fill();
    const std::vector<float> before = values(made_.list[0].weight);
    create(make("sgd", 0.0))->step(runner_.context, 1.0, 1.0f, 1);
    for (std::size_t i = 0; i < before.size(); ++i)
        EXPECT_FLOAT_EQ(made_.list[0].weight.as<float>()[i],
                        before[i] - made_.list[0].gradient.as<float>()[i]);
    create(make("adamw", 0.0));
    EXPECT_EQ(arena_->used(), 2 * device::Arena::alignment);  // two moments of one entry
}

TEST_F(OptimizerTest, ListsWhatItUpdatesWithItsMoments) {
    add_matrix_and_bias();
    const model::ParameterList updated = updated_entries(made_.list);
    for (const char* name : {"adamw", "sgd"}) {
        auto optimizer = create(make(name, 0.1));
        const std::vector<kernels::OptimizerTensor>& tensors = optimizer->tensors();
        ASSERT_EQ(tensors.size(), updated.size());
        for (std::size_t i = 0; i < tensors.size(); ++i) {
            EXPECT_EQ(tensors[i].weight.data(), updated[i].weight.data());
            const std::int64_t moments = name == std::string("adamw") ? updated[i].weight.elements() : 0;
            EXPECT_EQ(tensors[i].first_moment.elements(), moments);
            EXPECT_EQ(tensors[i].second_moment.elements(), moments);
        }
    }
}

TEST_F(OptimizerTest, RefusesAnUnknownName) {
    add_matrix_and_bias();
    EXPECT_THROW(create(make("adam", 0.0)), ConfigError);
}

}  // namespace
}  // namespace escalier::optim
