// What the op table of the CUDA backend promises as a whole: its scratch suffices, and its ops can be
// recorded into a CUDA graph and replayed, reading what may change by step from the device.
#include "cuda_fixture.h"
#include "kernels/common/cuda_matmul.h"
#include "kernels/cuda_ops.h"

namespace escalier::kernels::test {
namespace {

constexpr std::int64_t batch = 2, sequence = 5, rows = batch * sequence, hidden = 24, vocabulary = 40;
constexpr std::uint64_t seed = 5, site = 9;

WorkExtent extent() {
    return {rows, vocabulary, batch, sequence, 3, 8};
}

// A small model's worth of tensors, and ops over them that hang together: token to loss and back.
class Walk {
 public:
    explicit Walk(DType dtype)
        : dtype_(dtype),
          matmul_(workspace_.view().data(), 1 << 18, true),
          runner_(cuda_scratch_bytes(extent())) {
        runner_.queue().matmul = &matmul_;
    }

    void run(cudaStream_t stream) {
        const Ops& ops = cuda_ops();
        runner_.queue().stream = stream;
        const OpContext& context = runner_;
        const TensorView none;
        ops.prepare_weight(context, prepared_view(), table_.view());
        ops.embedding_forward(context, x_.view(), tokens_.view(), table_.view(), 0);
        ops.position_forward(context, x_.view(), positions_.view(), sequence);
        ops.dropout(context, x_.view(), none, {seed, site, sample_.view().as<std::uint64_t>()}, 0.3f,
                    sequence);
        ops.layernorm_forward(context, y_.view(), mean_.view(), rstd_.view(), x_.view(), gain_.view(),
                              shift_.view(), 1e-5f);
        ops.linear_forward(context, logits_.view(), none, y_.view(), table_.view(), prepared_view(), none,
                           Epilogue::none);
        ops.cross_entropy_statistics(context, statistics_.view(), logits_.view(), tokens_.view(), 0,
                                     vocabulary);
        ops.cross_entropy_finish(context, losses_.view(), logits_.view(), statistics_.view(), tokens_.view(),
                                 0, vocabulary, scale_.view().as<float>(), true);
        ops.sum_losses(context, loss_.view(), losses_.view(), Accumulate::overwrite);
        ops.linear_backward_input(context, dy_.view(), logits_.view(), table_.view(), prepared_view(), none,
                                  Epilogue::none, Accumulate::overwrite);
        ops.linear_backward_weight(context, dtable_.view(), none, logits_.view(), y_.view(),
                                   Accumulate::overwrite);
        ops.layernorm_backward(context, dx_.view(), dgain_.view(), dshift_.view(), none, dy_.view(),
                               x_.view(), mean_.view(), rstd_.view(), gain_.view(), Accumulate::overwrite);
        ops.dropout(context, dx_.view(), none, {seed, site, sample_.view().as<std::uint64_t>()}, 0.3f,
                    sequence);
        ops.position_backward(context, dpositions_.view(), dx_.view(), sequence, Accumulate::overwrite);
        ops.embedding_backward(context, dtable_.view(), tokens_.view(), dx_.view(), 0, Accumulate::add);
        const std::vector<SumTerm> terms = {{dtable_.view(), 0}, {dgain_.view(), 1}, {dpositions_.view(), 2}};
        ops.sum_of_squares(context, norms_.view(), terms);
        ops.count_nonfinite(context, bad_.view(), dtable_.view(), Accumulate::overwrite);
    }
    void set_sample(std::uint64_t sample) {
        cuda::check_cuda(cudaMemcpy(sample_.view().data(), &sample, sizeof sample, cudaMemcpyHostToDevice),
                         "cudaMemcpy");
    }
    Floats results() const {
        Floats all = dtable_.values();
        for (const DeviceTensor* part : {&dgain_, &dshift_, &dpositions_, &losses_})
            append(all, part->values());
        for (const double norm : norms_.elements<double>()) all.push_back(static_cast<float>(norm));
        all.push_back(static_cast<float>(loss_.elements<double>()[0]));
        EXPECT_EQ(bad_.elements<double>()[0], 0.0);
        return all;
    }

 private:
    TensorView prepared_view() const { return dtype_ == DType::bf16 ? prepared_.view() : TensorView(); }
    static std::vector<int> ids() {
        std::vector<int> out;
        for (std::int64_t row = 0; row < rows; ++row) out.push_back(static_cast<int>(row * 7 % 11));
        return out;
    }

    DType dtype_;
    DeviceTensor workspace_{DType::u8, Shape{1 << 18}};
    cuda::Matmul matmul_;
    CudaRunner runner_;
    Shape matrix_{rows, hidden}, table_shape_{vocabulary, hidden};
    DeviceTensor tokens_{Shape{rows}, ids()}, sample_{Shape{1}, std::vector<std::uint64_t>{0}};
    DeviceTensor table_{DType::f32, table_shape_, random_floats(vocabulary* hidden, 1)};
    DeviceTensor positions_{DType::f32, Shape{sequence, hidden}, random_floats(sequence* hidden, 2)};
    DeviceTensor gain_{DType::f32, {hidden}, random_floats(hidden, 3)};
    DeviceTensor shift_{DType::f32, {hidden}, random_floats(hidden, 4)};
    DeviceTensor scale_{DType::f32, {1}, Floats{0.1f}};
    DeviceTensor prepared_{dtype_, table_shape_}, x_{dtype_, matrix_}, y_{dtype_, matrix_};
    DeviceTensor dy_{dtype_, matrix_}, dx_{dtype_, matrix_}, logits_{dtype_, Shape{rows, vocabulary}};
    DeviceTensor mean_{DType::f32, {rows}}, rstd_{DType::f32, {rows}}, losses_{DType::f32, {rows}};
    DeviceTensor statistics_{DType::f32, {1, rows, 3}}, dtable_{DType::f32, table_shape_};
    DeviceTensor dgain_{DType::f32, {hidden}}, dshift_{DType::f32, {hidden}};
    DeviceTensor dpositions_{DType::f32, {sequence, hidden}};
    DeviceTensor loss_{DType::f64, {1}}, norms_{DType::f64, {3}}, bad_{DType::f64, {1}};
};

class CudaOpsTest : public testing::TestWithParam<DType> {};

TEST_P(CudaOpsTest, CanBeRecordedAndReplayed) {
    cudaStream_t stream = nullptr;
    cuda::check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    std::vector<Floats> direct;
    Walk plain(GetParam());
    for (const std::uint64_t sample : {0, 6}) {
        plain.set_sample(sample);
        plain.run(stream);
        direct.push_back(plain.results());
    }
    ASSERT_NE(direct[0], direct[1]) << "the masks of two samples are the same";

    Walk recorded(GetParam());  // its products choose their algorithms while the stream is captured
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    cuda::check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                     "cudaStreamBeginCapture");
    recorded.run(stream);
    cuda::check_cuda(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    cuda::check_cuda(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
    for (std::size_t i = 0; i < 2; ++i) {
        recorded.set_sample(i * 6);
        cuda::check_cuda(cudaGraphLaunch(executable, stream), "cudaGraphLaunch");
        expect_same_bits(recorded.results(), direct[i], "replayed");
    }
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
}

INSTANTIATE_TEST_SUITE_P(Storage, CudaOpsTest, testing::Values(DType::f32, DType::bf16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(CudaScratchTest, GrowsWithEveryExtentAndIsAligned) {
    const std::size_t base = cuda_scratch_bytes(extent());
    EXPECT_EQ(base % 256, 0u);
    for (const auto member : {&WorkExtent::rows, &WorkExtent::max_columns, &WorkExtent::sequence,
                              &WorkExtent::heads, &WorkExtent::head_size}) {
        WorkExtent larger = extent();
        larger.*member *= 1000;
        EXPECT_GE(cuda_scratch_bytes(larger), base);
    }
}

}  // namespace
}  // namespace escalier::kernels::test
