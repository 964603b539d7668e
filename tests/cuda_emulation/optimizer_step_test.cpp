// CUDA optimizer updates against the papers' formulas and the CPU twins.
#include "cuda_fixture.h"
#include "kernels/common/cuda_twins.h"

namespace escalier::kernels::test {
namespace {

// Lengths of all kinds, more tensors than a launch takes, some of them at odd addresses.
std::vector<std::int64_t> lengths() {
    std::vector<std::int64_t> out = {1, 3, 4, 17, 64, 4096, 4097, 0, 20001};
    for (std::int64_t i = 0; i < 80; ++i) out.push_back(i * 13 % 70 + 1);
    return out;
}

// One tensor of every length, on a device and as vectors.
class Tensors {
 public:
    Tensors(DType shadow, bool moments) {
        unsigned seed = 1;
        for (const std::int64_t n : lengths()) {
            const bool odd = seed % 5 == 0 && n > 1;
            initial_.push_back(random_floats(n + odd, seed));
            weights_.push_back(tensor(DType::f32, initial_.back()));
            const Floats zeros(initial_.back().size(), 0.0f);
            for (auto* moment : {&first_, &second_}) moment->push_back(tensor(DType::f32, zeros));
            gradients_.push_back(tensor(DType::f32, gradient_values(seed)));
            shadows_.push_back(std::make_unique<DeviceTensor>(shadow, Shape{n + odd}));
            const auto part = [&](const auto& of) { return of.back()->view().rows(odd, n); };
            views_.push_back({part(weights_), part(gradients_), moments ? part(first_) : TensorView(),
                              moments ? part(second_) : TensorView(),
                              seed % 3 == 0 ? TensorView() : part(shadows_), seed % 2 == 0});
            ++seed;
        }
    }
    std::size_t count() const { return views_.size(); }
    const std::vector<OptimizerTensor>& views() const { return views_; }
    std::size_t skipped(std::size_t i) const {
        return initial_[i].size() - static_cast<std::size_t>(views_[i].weight.elements());
    }
    Floats initial(std::size_t i) const { return cut(initial_[i], i); }
    Floats gradient(std::size_t i) const { return cut(gradients_[i]->values(), i); }
    Floats weight(std::size_t i) const { return cut(weights_[i]->values(), i); }
    Floats first(std::size_t i) const { return cut(first_[i]->values(), i); }
    Floats second(std::size_t i) const { return cut(second_[i]->values(), i); }
    Floats shadow(std::size_t i) const { return cut(shadows_[i]->values(), i); }
    // All of them, of all tensors.
    Floats everything() const {
        Floats all;
        for (std::size_t i = 0; i < count(); ++i)
            for (const Floats& part : {weight(i), first(i), second(i)}) append(all, part);
        return all;
    }
    // What lies before a view that begins at an odd address stays.
    void expect_rest_untouched() const {
        for (std::size_t i = 0; i < count(); ++i)
            for (std::size_t j = 0; j < skipped(i); ++j)
                EXPECT_EQ(weights_[i]->values()[j], initial_[i][j]) << "tensor " << i;
    }

 private:
    using List = std::vector<std::unique_ptr<DeviceTensor>>;

    static std::unique_ptr<DeviceTensor> tensor(DType dtype, const Floats& values) {
        return std::make_unique<DeviceTensor>(dtype, Shape{static_cast<std::int64_t>(values.size())}, values);
    }
    Floats gradient_values(unsigned seed) const {
        return random_floats(static_cast<std::int64_t>(initial_.back().size()), 1000 + seed);
    }
    Floats cut(const Floats& values, std::size_t i) const {
        return Floats(values.begin() + static_cast<std::ptrdiff_t>(skipped(i)), values.end());
    }

    std::vector<Floats> initial_;
    List weights_, gradients_, first_, second_, shadows_;
    std::vector<OptimizerTensor> views_;
};

class CudaOptimizerTest : public testing::TestWithParam<DType> {};

AdamwParameters adamw(std::int64_t step) {
    return {3e-3f, 0.9f, 0.95f, 1e-8f, 0.1f, 0.5f, step};
}

void expect_shadows(const Tensors& tensors, DType type) {
    for (std::size_t i = 0; i < tensors.count(); ++i) {
        if (tensors.views()[i].shadow.has_data()) {
            expect_same_bits(tensors.shadow(i), stored(type, tensors.weight(i)), "shadow");
        }
    }
}

TEST_P(CudaOptimizerTest, AdamwFollowsThePaperOverSeveralSteps) {
    const Tensors tensors(GetParam(), true);
    const std::int64_t steps = 3;
    for (std::int64_t step = 1; step <= steps; ++step)
        cuda::adamw_step(CudaRunner(), tensors.views(), adamw(step));
    for (std::size_t i = 0; i < tensors.count(); ++i) {
        const Floats g = tensors.gradient(i);
        Numbers<Tracked> w = numbers<Tracked>(tensors.initial(i)), m(w.size()), v(w.size());
        for (std::int64_t step = 1; step <= steps; ++step) {
            const AdamwParameters p = adamw(step);
            const double beta1 = p.beta1, beta2 = p.beta2, lr = p.lr;
            const double decay = tensors.views()[i].decay ? p.weight_decay : 0.0;
            const Tracked correction1(1 - std::pow(beta1, static_cast<double>(step)));
            const Tracked correction2(1 - std::pow(beta2, static_cast<double>(step)));
            for (std::size_t j = 0; j < w.size(); ++j) {
                const Tracked scaled = Tracked(g[j]) * Tracked(p.gradient_scale);
                m[j] = Tracked(beta1) * m[j] + Tracked(1 - beta1) * scaled;
                v[j] = Tracked(beta2) * v[j] + Tracked(1 - beta2) * scaled * scaled;
                const Tracked update = m[j] / correction1 / (sqrt(v[j] / correction2) + Tracked(p.eps));
                w[j] = w[j] * Tracked(1 - lr * decay) - Tracked(lr) * update;
            }
        }
        expect_near(tensors.weight(i), w, "weight");
        expect_near(tensors.first(i), m, "first moment");
        expect_near(tensors.second(i), v, "second moment");
    }
    expect_shadows(tensors, GetParam());
    tensors.expect_rest_untouched();
}

TEST_P(CudaOptimizerTest, SgdDecaysAndDescends) {
    const Tensors tensors(GetParam(), false);
    const SgdParameters p = {0.1f, 0.01f, 2.0f};
    cuda::sgd_step(CudaRunner(), tensors.views(), p);
    for (std::size_t i = 0; i < tensors.count(); ++i) {
        const Floats g = tensors.gradient(i);
        Numbers<Tracked> w = numbers<Tracked>(tensors.initial(i));
        const Tracked decay(tensors.views()[i].decay ? p.weight_decay : 0.0);
        for (std::size_t j = 0; j < w.size(); ++j)
            w[j] = w[j] - Tracked(p.lr) * (Tracked(g[j]) * Tracked(p.gradient_scale) + decay * w[j]);
        expect_near(tensors.weight(i), w, "weight");
    }
    expect_shadows(tensors, GetParam());
    tensors.expect_rest_untouched();
}

TEST_P(CudaOptimizerTest, SameBitsInAnyOrder) {
    expect_same_bits_in_any_order([&] {
        const Tensors tensors(GetParam(), true);
        cuda::adamw_step(CudaRunner(), tensors.views(), adamw(1));
        return tensors.everything();
    });
}

INSTANTIATE_TEST_SUITE_P(Shadows, CudaOptimizerTest, testing::Values(DType::f32, DType::bf16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

// The same formula in the same order: the twins differ by what fused multiply-adds leave out, no more.
TEST(CudaOptimizerTwinTest, AdamwStaysBesideTheCpuTwin) {
    const std::int64_t n = 1000;
    const Floats weight = random_floats(n, 1), gradient = random_floats(n, 2), zeros(weight.size(), 0.0f);
    GuardedBuffer<float> w(Shape{n}, weight), g(Shape{n}, gradient), m(Shape{n}, zeros), v(Shape{n}, zeros);
    const DeviceTensor dw(DType::f32, {n}, weight), dg(DType::f32, {n}, gradient);
    const DeviceTensor dm(DType::f32, {n}, zeros), dv(DType::f32, {n}, zeros);
    const std::vector<OptimizerTensor> on_cpu = {
        {w.view(), g.view(), m.view(), v.view(), TensorView(), true}};
    const std::vector<OptimizerTensor> on_device = {
        {dw.view(), dg.view(), dm.view(), dv.view(), TensorView(), true}};
    for (std::int64_t step = 1; step <= 5; ++step) {
        cpu_ops().adamw_step(Runner(), on_cpu, adamw(step));
        cuda::adamw_step(CudaRunner(), on_device, adamw(step));
    }
    const Floats out = dw.values();
    for (std::int64_t i = 0; i < n; ++i)
        EXPECT_NEAR(out[static_cast<std::size_t>(i)], w[i], 1e-6f * (1.0f + std::abs(w[i]))) << i;
}

TEST(CudaOptimizerEdgeTest, NothingToUpdate) {
    cuda::adamw_step(CudaRunner(), {}, adamw(1));
    const DeviceTensor empty(DType::f32, Shape{0});
    const std::vector<OptimizerTensor> tensors = {
        {empty.view(), empty.view(), empty.view(), empty.view(), TensorView(), true}};
    cuda::adamw_step(CudaRunner(), tensors, adamw(1));
    EXPECT_THROW(cuda::adamw_step(CudaRunner(), tensors, adamw(0)), InternalError);
}

}  // namespace
}  // namespace escalier::kernels::test
