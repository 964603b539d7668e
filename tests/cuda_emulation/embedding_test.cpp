// CUDA embeddings against the order that the contract names, and against the CPU twin bit for bit.
#include "cuda_fixture.h"
#include "kernels/common/cuda_scratch.h"
#include "kernels/common/cuda_twins.h"

namespace escalier::kernels::test {
namespace {

struct Size {
    std::int64_t batch, sequence, columns, vocabulary, vocab_begin;
    std::int64_t rows() const { return batch * sequence; }
};

class CudaEmbeddingTest : public testing::TestWithParam<std::tuple<DType, Size>> {
 protected:
    const DType dtype = std::get<0>(GetParam());
    const Size s = std::get<1>(GetParam());
    const Floats table = random_floats(s.vocabulary * s.columns, 1);
    const Floats dout = stored(dtype, random_floats(s.rows() * s.columns, 2));
    // Ids on both sides of the rank's range, many of them repeated.
    std::vector<int> tokens() const {
        std::mt19937 generator(3);
        std::uniform_int_distribution<int> uniform(0, static_cast<int>(s.vocab_begin + s.vocabulary + 3));
        std::vector<int> out(static_cast<std::size_t>(s.rows()));
        for (int& id : out) id = uniform(generator);
        return out;
    }
    Floats backward(Accumulate accumulate) const {
        const DeviceTensor ids(Shape{s.rows()}, tokens()), d(dtype, Shape{s.rows(), s.columns}, dout);
        const DeviceTensor dtable(DType::f32, Shape{s.vocabulary, s.columns},
                                  accumulate == Accumulate::add ? table : Floats(table.size(), NAN));
        const CudaRunner runner(cuda::embedding_scratch_bytes(s.rows()));
        cuda::embedding_backward(runner, dtable.view(), ids.view(), d.view(), s.vocab_begin, accumulate);
        return dtable.values();
    }
    Floats positions_backward(Accumulate accumulate, const Floats& start, std::int64_t places) const {
        const DeviceTensor d(dtype, Shape{s.rows(), s.columns}, dout);
        const DeviceTensor out(DType::f32, Shape{places, s.columns},
                               accumulate == Accumulate::add ? start : Floats(start.size(), NAN));
        cuda::position_backward(CudaRunner(), out.view(), d.view(), s.sequence, accumulate);
        return out.values();
    }
};

TEST_P(CudaEmbeddingTest, ForwardLooksUpOwnRowsAndZeroesOthers) {
    const std::vector<int> ids = tokens();
    const DeviceTensor on_device(Shape{s.rows()}, ids), rows(DType::f32, {s.vocabulary, s.columns}, table);
    const DeviceTensor out(dtype, Shape{s.rows(), s.columns});
    cuda::embedding_forward(CudaRunner(), out.view(), on_device.view(), rows.view(), s.vocab_begin);
    Floats expected(dout.size());
    for (std::int64_t i = 0; i < s.rows() * s.columns; ++i) {
        const std::int64_t id = ids[static_cast<std::size_t>(i / s.columns)] - s.vocab_begin;
        if (id >= 0 && id < s.vocabulary)
            expected[static_cast<std::size_t>(i)] =
                table[static_cast<std::size_t>(id * s.columns + i % s.columns)];
    }
    expect_same_bits(out.values(), stored(dtype, expected), "rows");
}

// The CPU twin adds in ascending row order in fp32, as its own tests show.
TEST_P(CudaEmbeddingTest, BackwardHasTheBitsOfTheCpuTwin) {
    for (const Accumulate accumulate : {Accumulate::overwrite, Accumulate::add}) {
        GuardedBuffer<int> ids(Shape{s.rows()}, tokens());
        GuardedBuffer<float> d(Shape{s.rows(), s.columns}, dout);
        GuardedBuffer<float> dtable(Shape{s.vocabulary, s.columns}, table);
        cpu_ops().embedding_backward(Runner(), dtable.view(), ids.view(), d.view(), s.vocab_begin,
                                     accumulate);
        expect_same_bits(backward(accumulate), dtable.values(), "dtable");
    }
}

TEST_P(CudaEmbeddingTest, SameBitsInAnyOrder) {
    expect_same_bits_in_any_order([&] { return backward(Accumulate::add); });
}

TEST_P(CudaEmbeddingTest, PositionsAreAddedAndTheirGradientsSummed) {
    const std::int64_t places = s.sequence + 2;
    const Floats positions = random_floats(places * s.columns, 5);
    const DeviceTensor x(dtype, Shape{s.rows(), s.columns}, dout);
    const DeviceTensor table_of(DType::f32, Shape{places, s.columns}, positions);
    cuda::position_forward(CudaRunner(), x.view(), table_of.view(), s.sequence);
    Floats added = dout, sums(positions.size(), 0.0f), onto = positions;
    for (std::int64_t row = 0; row < s.rows(); ++row)
        for (std::int64_t i = 0; i < s.columns; ++i) {
            const auto at = static_cast<std::size_t>(row % s.sequence * s.columns + i);
            const auto here = static_cast<std::size_t>(row * s.columns + i);
            added[here] += positions[at];
            sums[at] += dout[here];
            onto[at] += dout[here];
        }
    expect_same_bits(x.values(), stored(dtype, added), "x");
    expect_same_bits(positions_backward(Accumulate::overwrite, positions, places), sums, "overwrite");
    expect_same_bits(positions_backward(Accumulate::add, positions, places), onto, "add");
}

INSTANTIATE_TEST_SUITE_P(Sizes, CudaEmbeddingTest,
                         testing::Combine(testing::Values(DType::f32, DType::bf16),
                                          testing::Values(Size{1, 1, 1, 1, 0}, Size{3, 17, 3, 5, 0},
                                                          Size{2, 65, 65, 40, 7}, Size{5, 40, 200, 300, 100},
                                                          Size{3, 80, 264, 2, 1}, Size{2, 1500, 8, 50, 3})),
                         [](const auto& info) {
                             const Size s = std::get<1>(info.param);
                             return std::string(name_of(std::get<0>(info.param))) + "_" +
                                    std::to_string(s.rows()) + "x" + std::to_string(s.columns);
                         });

}  // namespace
}  // namespace escalier::kernels::test
