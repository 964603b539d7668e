// Reads dout and out once, 2 R NH HS elements and 4 R NH bytes of lse, writes 8 R NH bytes. Floor: those
// bytes at the speed of memory, of which 85 % is expected.
#include "kernels/attention_statistics.h"

#include "kernels/common/cuda_queue.h"

namespace escalier::kernels::cuda {
namespace {

constexpr int threads = 256, lanes = 8;

// Eight lanes per query of a head, `width` elements at a time. Neighbouring heads of a row lie side by side.
template <class S, int width>
__global__ void __launch_bounds__(threads)
    statistics_kernel(AttentionGeometry g, QueryStatistics* statistics, int rows, const S* dout, const S* out,
                      const float* lse) {
    const std::int64_t at = (std::int64_t{blockIdx.x} * threads + threadIdx.x) / lanes;
    const int head = static_cast<int>(at % g.heads), t = static_cast<int>(at / g.heads % rows);
    const int sample = static_cast<int>(at / g.heads / rows), lane = threadIdx.x % lanes;
    const bool inside = sample < g.batch && t < g.sequence;
    float sum = 0.0f;
    if (inside)
        for (int i = lane * width; i < g.head_size; i += lanes * width) {
            const std::int64_t first = g.out(sample, head) + std::int64_t{t} * g.out_stride + i;
            if constexpr (width == 1) {
                sum += to_float(dout[first]) * to_float(out[first]);
            } else {
                const Vector<S> a = Vector<S>::load(dout + first), b = Vector<S>::load_streaming(out + first);
#pragma unroll
                for (int e = 0; e < width; ++e) sum += to_float(a[e]) * to_float(b[e]);
            }
        }
#pragma unroll
    for (int distance = lanes / 2; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(whole_warp, sum, distance);
    if (sample < g.batch && lane == 0)
        statistics[static_cast<std::int64_t>(sample * g.heads + head) * rows + t] =
            inside ? QueryStatistics{lse[g.statistic(sample, head) + t] * log2_of_e, sum}
                   : QueryStatistics{INFINITY, 0.0f};
}

}  // namespace

AttentionStatistics attention_statistics(const OpContext& context, const AttentionGeometry& g,
                                         const TensorView& dout, const TensorView& out,
                                         const TensorView& lse) {
    const std::int64_t rows = attention_statistics_rows(g.sequence), queries = g.batch * rows * g.heads;
    auto* memory = context.shared_scratch<QueryStatistics>(static_cast<std::size_t>(queries));
    dispatch_storage(out.dtype(), [&]<class S>() {
        constexpr int width = Vector<S>::size;
        launch(g.head_size % width == 0 ? statistics_kernel<S, width> : statistics_kernel<S, 1>,
               ceil_div(queries * lanes, threads), dim3(threads), 0, context.queue().stream, g, memory,
               static_cast<int>(rows), data_as<S>(dout), data_as<S>(out), lse.as<float>());
    });
    return {memory, static_cast<int>(rows)};
}

}  // namespace escalier::kernels::cuda
