// CUDA linear layers against the reference: with epilogues inside the library, with own kernels,
// accumulating.
#include "cuda_fixture.h"
#include "kernels/common/cuda_column_sums.h"
#include "kernels/common/cuda_matmul.h"
#include "kernels/common/cuda_scratch.h"
#include "kernels/common/cuda_twins.h"
#include "tests/unit/kernels/linear_reference.h"

namespace escalier::kernels::test {
namespace {

// A runner with products.
class MatmulRunner {
 public:
    explicit MatmulRunner(std::size_t scratch_bytes = 0, bool deterministic = true)
        : workspace_(DType::u8, Shape{1 << 20}),
          matmul_(workspace_.view().data(), 1 << 20, deterministic),
          runner_(scratch_bytes) {
        runner_.queue().matmul = &matmul_;
    }
    operator const OpContext&() const { return runner_; }  // NOLINT(google-explicit-constructor)
    cuda::Matmul& matmul() { return matmul_; }

 private:
    DeviceTensor workspace_;
    cuda::Matmul matmul_;
    CudaRunner runner_;
};

enum class BiasType { none, floats, stored };

class CudaLinearTest : public testing::TestWithParam<std::tuple<DType, LinearSize>> {
 protected:
    const DType dtype = std::get<0>(GetParam());
    const LinearSize s = std::get<1>(GetParam());
    const StorageRounding round{dtype};
    const std::size_t scratch = cuda::column_sums_scratch_bytes(s.rows, s.n);
    const Floats x = stored(dtype, random_floats(s.rows* s.k, 1));
    const Floats w = random_floats(s.n * s.k, 2, 0.2f), multiplied = stored(dtype, w);
    const Floats bias = random_floats(s.n, 3), dy = stored(dtype, random_floats(s.rows*s.n, 4));
    const Floats pre_of_x = stored(dtype, random_floats(s.rows* s.k, 5, 2.0f));

    // The weight and what the backend prepares of it.
    struct Weight {
        DeviceTensor master, prepared;
        bool used;
        TensorView prepared_view() const { return used ? prepared.view() : TensorView(); }
    };
    std::unique_ptr<Weight> weight(const OpContext& context) const {
        const std::int64_t elements = cuda::prepared_weight_elements(s.n, s.k, dtype);
        EXPECT_EQ(elements, dtype == DType::bf16 ? s.n * s.k : 0);
        auto out =
            std::unique_ptr<Weight>(new Weight{DeviceTensor(DType::f32, {s.n, s.k}, w),
                                               DeviceTensor(dtype, {s.n, elements ? s.k : 0}), elements > 0});
        cuda::prepare_weight(context, out->prepared_view(), out->master.view());
        return out;
    }
    struct Forward {
        Floats y, pre;
    };
    Forward forward(const OpContext& context, BiasType with_bias, Epilogue epilogue) const {
        const auto own = weight(context);
        const DeviceTensor in(dtype, {s.rows, s.k}, x), y(dtype, {s.rows, s.n}), pre(dtype, {s.rows, s.n});
        const DeviceTensor shift(with_bias == BiasType::stored ? dtype : DType::f32, {s.n}, bias);
        cuda::linear_forward(context, y.view(), epilogue == Epilogue::gelu ? pre.view() : TensorView(),
                             in.view(), own->master.view(), own->prepared_view(),
                             with_bias == BiasType::none ? TensorView() : shift.view(), epilogue);
        return {y.values(), pre.values()};
    }
    // With add, dx starts at `start`.
    Floats backward_input(const OpContext& context, Epilogue epilogue, Accumulate accumulate,
                          float start = 0.0f) const {
        const auto own = weight(context);
        const DeviceTensor d(dtype, {s.rows, s.n}, dy), pre(dtype, {s.rows, s.k}, pre_of_x);
        const DeviceTensor dx(dtype, {s.rows, s.k},
                              Floats(x.size(), accumulate == Accumulate::add ? start : NAN));
        cuda::linear_backward_input(context, dx.view(), d.view(), own->master.view(), own->prepared_view(),
                                    epilogue == Epilogue::gelu ? pre.view() : TensorView(), epilogue,
                                    accumulate);
        return dx.values();
    }
    struct WeightGradients {
        Floats dweight, dbias;
    };
    WeightGradients backward_weight(const OpContext& context, Accumulate accumulate,
                                    float start = 0.0f) const {
        const float begin = accumulate == Accumulate::add ? start : NAN;
        const DeviceTensor d(dtype, {s.rows, s.n}, dy), in(dtype, {s.rows, s.k}, x);
        const DeviceTensor dweight(DType::f32, {s.n, s.k}, Floats(w.size(), begin));
        const DeviceTensor dbias(DType::f32, {s.n}, Floats(bias.size(), begin));
        cuda::linear_backward_weight(context, dweight.view(), dbias.view(), d.view(), in.view(), accumulate);
        return {dweight.values(), dbias.values()};
    }
    Floats everything(const OpContext& context) const {
        const Forward out = forward(context, BiasType::stored, Epilogue::gelu);
        const WeightGradients gradients = backward_weight(context, Accumulate::overwrite);
        Floats all = out.y;
        append(all, out.pre);
        append(all, backward_input(context, Epilogue::gelu, Accumulate::overwrite));
        append(all, gradients.dweight);
        append(all, gradients.dbias);
        return all;
    }
};

// A product that is rounded before the bias is added, or before GELU, is rounded once more than a fused one.
Numbers<Tracked> rounded_twice(const StorageRounding& round, const Numbers<Tracked>& product,
                               const Numbers<Tracked>& result) {
    Numbers<Tracked> out = round(result);
    for (std::size_t i = 0; i < out.size(); ++i) {
        const Tracked again = round(product[i]);
        out[i].error += 1.2 * (again.error - product[i].error);  // gelu' reaches 1.13
    }
    return out;
}

TEST_P(CudaLinearTest, ForwardMatchesReference) {
    const MatmulRunner runner(scratch);
    const Numbers<Tracked> tx = numbers<Tracked>(x), tw = numbers<Tracked>(multiplied);
    const Numbers<Tracked> product = product_and_bias<Tracked>(s, tx, tw, nullptr);
    for (const BiasType with_bias : {BiasType::none, BiasType::floats, BiasType::stored}) {
        const Numbers<Tracked> shift =
            numbers<Tracked>(with_bias == BiasType::stored ? stored(dtype, bias) : bias);
        const Numbers<Tracked> z =
            product_and_bias(s, tx, tw, with_bias == BiasType::none ? nullptr : &shift);
        expect_near(forward(runner, with_bias, Epilogue::none).y, rounded_twice(round, product, z), "y");
        const Forward out = forward(runner, with_bias, Epilogue::gelu);
        expect_near(out.pre, rounded_twice(round, product, z), "pre");
        Numbers<Tracked> activated;
        for (const Tracked& value : z) activated.push_back(gelu(value));
        expect_near(out.y, rounded_twice(round, product, activated), "gelu(z)");
    }
}

TEST_P(CudaLinearTest, BackwardInputMatchesReference) {
    const MatmulRunner runner(scratch);
    const Numbers<Tracked> dx = linear_input_gradient(s, dy, multiplied);
    expect_near(backward_input(runner, Epilogue::none, Accumulate::overwrite), round(dx), "dx");
    Numbers<Tracked> with_gelu, added;
    for (std::size_t i = 0; i < dx.size(); ++i) {
        with_gelu.push_back(dx[i] * gelu_derivative(Tracked(pre_of_x[i])));
        added.push_back(dx[i] + Tracked(2.0));
    }
    expect_near(backward_input(runner, Epilogue::gelu, Accumulate::overwrite),
                rounded_twice(round, dx, with_gelu), "dx with gelu");
    expect_near(backward_input(runner, Epilogue::none, Accumulate::add, 2.0f), round(added), "added dx");
}

TEST_P(CudaLinearTest, BackwardWeightMatchesReference) {
    const MatmulRunner runner(scratch);
    Numbers<Tracked> dweight = linear_weight_gradient(s, dy, x), dbias(static_cast<std::size_t>(s.n));
    for (std::size_t i = 0; i < dy.size(); ++i) dbias[i % dbias.size()] += Tracked(dy[i]);
    const WeightGradients out = backward_weight(runner, Accumulate::overwrite);
    expect_near(out.dweight, dweight, "dweight");
    expect_near(out.dbias, dbias, "dbias");
    for (Numbers<Tracked>* sum : {&dweight, &dbias})
        for (Tracked& value : *sum) value += Tracked(-3.0);
    const WeightGradients added = backward_weight(runner, Accumulate::add, -3.0f);
    expect_near(added.dweight, dweight, "added dweight");
    expect_near(added.dbias, dbias, "added dbias");
}

TEST_P(CudaLinearTest, SameBitsInAnyOrder) {
    for (const bool deterministic : {true, false}) {
        const MatmulRunner runner(scratch, deterministic);
        expect_same_bits_in_any_order([&] { return everything(runner); });
    }
}

TEST_P(CudaLinearTest, AnAlgorithmIsChosenOncePerProduct) {
    MatmulRunner runner(scratch);
    everything(runner);
    const std::size_t chosen = runner.matmul().chosen();
    EXPECT_GE(chosen, 3u);
    everything(runner);
    EXPECT_EQ(runner.matmul().chosen(), chosen);
}

INSTANTIATE_TEST_SUITE_P(Sizes, CudaLinearTest,
                         testing::Combine(testing::Values(DType::f32, DType::bf16),
                                          testing::Values(LinearSize{1, 1, 1}, LinearSize{3, 17, 5},
                                                          LinearSize{17, 3, 65}, LinearSize{65, 65, 17},
                                                          LinearSize{17, 40, 33}, LinearSize{33, 48, 24},
                                                          LinearSize{150, 264, 16}, LinearSize{200, 8, 520})),
                         [](const auto& info) {
                             const LinearSize s = std::get<1>(info.param);
                             return std::string(name_of(std::get<0>(info.param))) + "_" +
                                    std::to_string(s.rows) + "_" + std::to_string(s.k) + "_to_" +
                                    std::to_string(s.n);
                         });

TEST(CudaColumnSumsTest, ManyBlocksAddUp) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
        for (const std::int64_t columns : {1, 40, 300}) {
            const std::int64_t rows = 1000;
            const Floats values = stored(dtype, random_floats(rows * columns, 1));
            Numbers<Tracked> expected(static_cast<std::size_t>(columns));
            for (std::size_t i = 0; i < values.size(); ++i)
                expected[i % expected.size()] += Tracked(values[i]);
            const DeviceTensor x(dtype, {rows, columns}, values), out(DType::f32, {columns});
            const CudaRunner runner(cuda::column_sums_scratch_bytes(rows, columns));
            const auto run = [&] {
                cuda::add_column_sums(runner, out.view(), x.view(), Accumulate::overwrite);
                return out.values();
            };
            expect_near(run(), expected, "column sums");
            expect_same_bits_in_any_order(run);
        }
    }
}

TEST(CudaLinearEdgeTest, NoRows) {
    const MatmulRunner runner;
    const DeviceTensor x(DType::f32, {0, 3}), y(DType::f32, {0, 4}), w(DType::f32, {4, 3});
    const DeviceTensor dweight(DType::f32, {4, 3}), dbias(DType::f32, {4});
    cuda::linear_forward(runner, y.view(), TensorView(), x.view(), w.view(), TensorView(), TensorView(),
                         Epilogue::none);
    cuda::linear_backward_input(runner, x.view(), y.view(), w.view(), TensorView(), TensorView(),
                                Epilogue::none, Accumulate::overwrite);
    cuda::linear_backward_weight(runner, dweight.view(), dbias.view(), y.view(), x.view(),
                                 Accumulate::overwrite);
    EXPECT_EQ(dweight.values(), Floats(12, 0.0f));
    EXPECT_EQ(dbias.values(), Floats(4, 0.0f));
}

TEST(CudaLinearEdgeTest, GeluOfLargeValuesStaysFinite) {
    const Floats x = {-1e4f, -200.0f, -12.0f, 12.0f, 200.0f, 1e4f};
    const DeviceTensor in(DType::f32, {6, 1}, x), w(DType::f32, {1, 1}, Floats{1.0f});
    const DeviceTensor y(DType::f32, {6, 1}), pre(DType::f32, {6, 1}),
        dy(DType::f32, {6, 1}, Floats(6, 1.0f));
    const DeviceTensor dx(DType::f32, {6, 1});
    const MatmulRunner runner;
    cuda::linear_forward(runner, y.view(), pre.view(), in.view(), w.view(), TensorView(), TensorView(),
                         Epilogue::gelu);
    cuda::linear_backward_input(runner, dx.view(), dy.view(), w.view(), TensorView(), pre.view(),
                                Epilogue::gelu, Accumulate::overwrite);
    for (std::size_t i = 0; i < 6; ++i) {
        EXPECT_NEAR(y.values()[i], x[i] > 0 ? x[i] : 0.0f, 1e-20);
        EXPECT_NEAR(dx.values()[i], x[i] > 0 ? 1.0f : 0.0f, 1e-20);
    }
}

TEST(CudaLinearEdgeTest, RefusesWhatDoesNotFit) {
    const MatmulRunner runner;
    const DeviceTensor x(DType::f32, {2, 3}), other(DType::f32, {4, 5}), w(DType::f32, {4, 3});
    const DeviceTensor y(DType::f32, {2, 4}), half(DType::bf16, {2, 3}), half_y(DType::bf16, {2, 4});
    const auto forward = [&](const DeviceTensor& out, const DeviceTensor& in, const DeviceTensor& weight) {
        cuda::linear_forward(runner, out.view(), TensorView(), in.view(), weight.view(), TensorView(),
                             TensorView(), Epilogue::none);
    };
    EXPECT_THROW(forward(y, x, other), InternalError);      // shapes
    EXPECT_THROW(forward(y, half, w), InternalError);       // types
    EXPECT_THROW(forward(half_y, half, w), InternalError);  // bf16 wants the prepared weight
}

}  // namespace
}  // namespace escalier::kernels::test
