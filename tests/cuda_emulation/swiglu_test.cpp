// CUDA SwiGLU against the reference.
#include "cuda_fixture.h"
#include "kernels/common/cuda_twins.h"
#include "tests/unit/kernels/swiglu_reference.h"

namespace escalier::kernels::test {
namespace {

class CudaSwigluTest
    : public testing::TestWithParam<std::tuple<DType, std::pair<std::int64_t, std::int64_t>>> {
 protected:
    const DType dtype = std::get<0>(GetParam());
    const std::int64_t rows = std::get<1>(GetParam()).first, columns = std::get<1>(GetParam()).second;
    const Floats gate_up = stored(dtype, random_floats(rows * 2 * columns, 1, 2.0f));
    const Floats dy = stored(dtype, random_floats(rows* columns, 2));

    Floats forward() const {
        const DeviceTensor in(dtype, Shape{rows, 2 * columns}, gate_up), y(dtype, Shape{rows, columns});
        cuda::swiglu_forward(CudaRunner(), y.view(), in.view());
        return y.values();
    }
    Floats backward() const {
        const DeviceTensor in(dtype, Shape{rows, 2 * columns}, gate_up), out(dtype, Shape{rows, 2 * columns});
        const DeviceTensor d(dtype, Shape{rows, columns}, dy);
        cuda::swiglu_backward(CudaRunner(), out.view(), d.view(), in.view());
        return out.values();
    }
};

TEST_P(CudaSwigluTest, MatchesReferenceAndCpuTwin) {
    const StorageRounding round{dtype};
    const Numbers<Tracked> in = numbers<Tracked>(gate_up);
    GuardedBuffer<float> cpu_in(Shape{rows, 2 * columns}, gate_up), cpu_dy(Shape{rows, columns}, dy);
    GuardedBuffer<float> cpu_y(Shape{rows, columns}), cpu_gradient(Shape{rows, 2 * columns});
    cpu_ops().swiglu_forward(Runner(), cpu_y.view(), cpu_in.view());
    cpu_ops().swiglu_backward(Runner(), cpu_gradient.view(), cpu_dy.view(), cpu_in.view());
    expect_near_both(forward(), cpu_y.values(), round(swiglu_reference(rows, columns, in)), "y");
    expect_near_both(backward(), cpu_gradient.values(),
                     round(swiglu_gradient(rows, columns, in, numbers<Tracked>(dy))), "dgate_up");
}

TEST_P(CudaSwigluTest, SameBitsInAnyOrder) {
    expect_same_bits_in_any_order([&] {
        Floats all = forward();
        append(all, backward());
        return all;
    });
}

const auto name = [](const auto& info) {
    const auto& [dtype, size] = info.param;
    return std::string(name_of(dtype)) + "_" + std::to_string(size.first) + "x" + std::to_string(size.second);
};
INSTANTIATE_TEST_SUITE_P(Sizes, CudaSwigluTest,
                         testing::Combine(testing::Values(DType::f32, DType::bf16),
                                          testing::Values(std::pair{1, 1}, std::pair{3, 17},
                                                          std::pair{17, 64}, std::pair{5, 4},
                                                          std::pair{65, 344})),
                         name);

TEST(CudaSwigluEdgeTest, LargeGatesSaturate) {
    const DeviceTensor in(DType::f32, Shape{2, 2}, Floats{-1000.0f, 3.0f, 1000.0f, 3.0f});
    const DeviceTensor y(DType::f32, Shape{2, 1});
    cuda::swiglu_forward(CudaRunner(), y.view(), in.view());
    EXPECT_EQ(y.values(), (Floats{0.0f, 3000.0f}));
}

}  // namespace
}  // namespace escalier::kernels::test
