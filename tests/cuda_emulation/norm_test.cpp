// CUDA LayerNorm and RMSNorm against the reference.
#include "cuda_fixture.h"
#include "kernels/common/cuda_scratch.h"
#include "kernels/common/cuda_twins.h"
#include "tests/unit/kernels/norm_reference.h"

namespace escalier::kernels::test {
namespace {

struct NormSize {
    std::int64_t rows, columns;
};

class CudaNormTest : public testing::TestWithParam<std::tuple<DType, bool, NormSize>> {
 protected:
    const DType dtype = std::get<0>(GetParam());
    const bool centre = std::get<1>(GetParam());
    const std::int64_t rows = std::get<2>(GetParam()).rows, columns = std::get<2>(GetParam()).columns;
    const Shape matrix{rows, columns}, vector{columns};
    const StorageRounding round{dtype};
    const Floats x = stored(dtype, shifted(random_floats(rows* columns, 1, 2.0f)));
    const Floats weight = random_floats(columns, 2), bias = random_floats(columns, 3);
    const Floats dy = stored(dtype, random_floats(rows* columns, 4));
    const Floats dresidual = stored(dtype, random_floats(rows* columns, 5));
    const Floats delta = stored(dtype, random_floats(rows* columns, 6));
    const Floats delta_bias = random_floats(columns, 7);

    static Floats shifted(Floats values) {
        for (float& value : values) value += 0.5f;
        return values;
    }
    NormInputs<Tracked> inputs(const Floats& of) const {
        return {rows, columns, numbers<Tracked>(of), numbers<Tracked>(weight), numbers<Tracked>(bias)};
    }

    struct Forward {
        Floats y, mean, rstd;
        Floats all() const {
            Floats out = y;
            append(out, mean);
            append(out, rstd);
            return out;
        }
    };
    Forward forward(const Floats& of) const {
        const DeviceTensor in(dtype, matrix, of), y(dtype, matrix), gain(DType::f32, vector, weight);
        const DeviceTensor shift(DType::f32, vector, bias), mean(DType::f32, {rows}),
            rstd(DType::f32, {rows});
        const CudaRunner runner;
        if (centre)
            cuda::layernorm_forward(runner, y.view(), mean.view(), rstd.view(), in.view(), gain.view(),
                                    shift.view(), norm_eps);
        else
            cuda::rmsnorm_forward(runner, y.view(), rstd.view(), in.view(), gain.view(), norm_eps);
        return {y.values(), centre ? mean.values() : Floats(), rstd.values()};
    }
    struct Fused {
        Floats sum;
        Forward norm;
    };
    // The sum takes the memory of the residual, of delta, or its own.
    Fused fused(const TensorView& extra, int place) const {
        const DeviceTensor residual(dtype, matrix, x), d(dtype, matrix, delta), own(dtype, matrix);
        const DeviceTensor y(dtype, matrix), gain(DType::f32, vector, weight),
            shift(DType::f32, vector, bias);
        const DeviceTensor mean(DType::f32, {rows}), rstd(DType::f32, {rows});
        const DeviceTensor& sum = place == 0 ? own : place == 1 ? residual : d;
        const CudaRunner runner;
        if (centre)
            cuda::residual_layernorm_forward(runner, sum.view(), y.view(), mean.view(), rstd.view(),
                                             residual.view(), d.view(), extra, gain.view(), shift.view(),
                                             norm_eps);
        else
            cuda::residual_rmsnorm_forward(runner, sum.view(), y.view(), rstd.view(), residual.view(),
                                           d.view(), extra, gain.view(), norm_eps);
        return {sum.values(), {y.values(), centre ? mean.values() : Floats(), rstd.values()}};
    }
    struct Backward {
        Floats dx, dweight, dbias;
        Floats all() const {
            Floats out = dx;
            append(out, dweight);
            append(out, dbias);
            return out;
        }
    };
    // With add, the gains' gradients start at `start`. The statistics are those of the reference, in fp32.
    Backward backward(Accumulate accumulate, float start, bool residual, bool in_place) const {
        Numbers<Tracked> means, rstds;
        norm_reference(inputs(x), centre, &means, &rstds);
        const auto rounded = [](const Numbers<Tracked>& of) {
            Floats out;
            for (const Tracked& value : of) out.push_back(static_cast<float>(value.value));
            return out;
        };
        const DeviceTensor in(dtype, matrix, x), d(dtype, matrix, dy), past(dtype, matrix, dresidual);
        const DeviceTensor own(dtype, matrix), gain(DType::f32, vector, weight);
        const DeviceTensor mean(DType::f32, {rows}, rounded(means)), rstd(DType::f32, {rows}, rounded(rstds));
        const Floats begin(static_cast<std::size_t>(columns),
                           accumulate == Accumulate::add ? start : std::numeric_limits<float>::quiet_NaN());
        const DeviceTensor dweight(DType::f32, vector, begin), dbias(DType::f32, vector, begin);
        const DeviceTensor& dx = in_place ? past : own;
        const TensorView beside = residual ? past.view() : TensorView();
        const CudaRunner runner(cuda::column_sums_scratch_bytes(rows, columns));
        if (centre)
            cuda::layernorm_backward(runner, dx.view(), dweight.view(), dbias.view(), beside, d.view(),
                                     in.view(), mean.view(), rstd.view(), gain.view(), accumulate);
        else
            cuda::rmsnorm_backward(runner, dx.view(), dweight.view(), beside, d.view(), in.view(),
                                   rstd.view(), gain.view(), accumulate);
        return {dx.values(), dweight.values(), centre ? dbias.values() : Floats()};
    }
};

TEST_P(CudaNormTest, ForwardMatchesReference) {
    Numbers<Tracked> means, rstds;
    const Numbers<Tracked> y = norm_reference(inputs(x), centre, &means, &rstds);
    const Forward out = forward(x);
    expect_near(out.y, round(y), "y");
    expect_near(out.rstd, rstds, "rstd");
    if (centre) expect_near(out.mean, means, "mean");
}

TEST_P(CudaNormTest, BackwardMatchesReference) {
    NormGradients expected = norm_gradients(inputs(x), numbers<Tracked>(dy), centre);
    const Backward out = backward(Accumulate::overwrite, 0.0f, false, false);
    expect_near(out.dx, round(expected.dx), "dx");
    expect_near(out.dweight, expected.dweight, "dweight");
    if (centre) expect_near(out.dbias, expected.dbias, "dbias");

    for (std::size_t i = 0; i < expected.dx.size(); ++i) expected.dx[i] += Tracked(dresidual[i]);
    const Backward with_residual = backward(Accumulate::overwrite, 0.0f, true, false);
    expect_near(with_residual.dx, round(expected.dx), "dx with the residual's gradient");
    expect_same_bits(with_residual.dx, backward(Accumulate::overwrite, 0.0f, true, true).dx, "in place");
}

TEST_P(CudaNormTest, AccumulateAdds) {
    const Backward once = backward(Accumulate::overwrite, 0.0f, false, false);
    expect_same_bits(once.all(), backward(Accumulate::add, 0.0f, false, false).all(), "onto zero");
    const Backward onto_three = backward(Accumulate::add, 3.0f, false, false);
    for (std::size_t i = 0; i < once.dweight.size(); ++i)
        EXPECT_EQ(onto_three.dweight[i], 3.0f + once.dweight[i]);
    for (std::size_t i = 0; i < once.dbias.size(); ++i) EXPECT_EQ(onto_three.dbias[i], 3.0f + once.dbias[i]);
}

TEST_P(CudaNormTest, FusedResidualHasTheBitsOfTheTwoOps) {
    const DeviceTensor floats(DType::f32, vector, delta_bias), as_stored(dtype, vector, delta_bias);
    for (const TensorView& extra : {TensorView(), floats.view(), as_stored.view()}) {
        const DeviceTensor residual(dtype, matrix, x), d(dtype, matrix, delta), sum(dtype, matrix);
        cuda::residual_add(CudaRunner(), sum.view(), residual.view(), d.view(), extra);
        const Forward apart = forward(sum.values());
        for (const int place : {0, 1, 2}) {
            const Fused out = fused(extra, place);
            expect_same_bits(out.sum, sum.values(), "sum");
            expect_same_bits(out.norm.all(), apart.all(), "norm");
        }
    }
}

TEST_P(CudaNormTest, SameBitsInAnyOrder) {
    expect_same_bits_in_any_order([&] {
        Floats all = fused(TensorView(), 0).norm.all();
        append(all, backward(Accumulate::overwrite, 0.0f, true, true).all());
        return all;
    });
}

// Odd rows; whole vectors, with and without a part of a warp; two chunks to a thread; rows read twice; many
// blocks.
INSTANTIATE_TEST_SUITE_P(Sizes, CudaNormTest,
                         testing::Combine(testing::Values(DType::f32, DType::bf16), testing::Bool(),
                                          testing::Values(NormSize{1, 1}, NormSize{3, 3}, NormSize{17, 16},
                                                          NormSize{33, 65}, NormSize{35, 200},
                                                          NormSize{257, 24}, NormSize{2, 1601},
                                                          NormSize{3, 4608}, NormSize{2, 8448})),
                         [](const auto& info) {
                             const NormSize size = std::get<2>(info.param);
                             return std::string(std::get<1>(info.param) ? "layernorm_" : "rmsnorm_") +
                                    name_of(std::get<0>(info.param)) + "_" + std::to_string(size.rows) + "x" +
                                    std::to_string(size.columns);
                         });

}  // namespace
}  // namespace escalier::kernels::test
