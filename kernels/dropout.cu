// Reads and writes x: 2s bytes an element of size s. Floor: those at the speed of memory; but an element also
// costs 13 integer multiplications and exclusive ors of Philox, a draw of 130 for four, which is about as
// much as the floor: 60 % is expected.
#include "kernels/dropout.h"

#include "core/rng.h"
#include "kernels/common/cuda_chunks.h"
#include "kernels/common/cuda_twins.h"

namespace escalier::kernels::cuda {
namespace {

struct MaskKey {
    std::uint64_t key;  // of (seed, site)
    const std::uint64_t* first_sample;
    std::uint32_t threshold;  // a 32-bit draw below it drops the channel
    float scale;
};

constexpr int channels_per_draw = 4;  // draw number d of a row serves channels 4d .. 4d + 3

template <class Chunk, class S = ElementOf<Chunk>>
__global__ void dropout_kernel(S* x, Bias<S> bias, MaskKey mask, std::int64_t rows, std::int64_t columns,
                               std::int64_t sequence) {
    const std::uint64_t first_sample = *mask.first_sample;
    for_own_rows(rows, [&](std::int64_t row) {
        const std::uint64_t sample = first_sample + static_cast<std::uint64_t>(row / sequence);
        const std::uint64_t position = static_cast<std::uint64_t>(row % sequence) << 32;
        Chunk chunks[sweep_chunks];
        S* const own = x + row * columns;
        sweep_row<Chunk>(
            columns, [&](int slot, std::int64_t column) { chunks[slot] = Chunk::load(own + column); },
            [&](int slot, std::int64_t column) {
                float values[Chunk::size];
#pragma unroll
                for (int i = 0; i < Chunk::size; ++i) values[i] = to_float(chunks[slot][i]);
                if (bias) bias.template add_to<Chunk>(values, column);
                PhiloxBlock bits{};
#pragma unroll
                for (int i = 0; i < Chunk::size; ++i) {
                    const std::int64_t channel = column + i;
                    if (i % channels_per_draw == 0)
                        bits = philox(mask.key, sample,
                                      position | static_cast<std::uint64_t>(channel / channels_per_draw));
                    const auto word = static_cast<unsigned>(channel % channels_per_draw);
                    const bool dropped = bits[word] < mask.threshold;
                    chunks[slot][i] = from_float<S>(dropped ? 0.0f : values[i] * mask.scale);
                }
                chunks[slot].store(own + column);
            });
    });
}

}  // namespace

void dropout(const OpContext& context, TensorView x, TensorView bias, const DropoutKey& key,
             float probability, std::int64_t sequence) {
    ESCALIER_CHECK(probability >= 0.0f && probability < 1.0f, "dropout probability outside [0, 1)");
    const std::int64_t rows = rows_of(x), columns = columns_of(x);
    ESCALIER_CHECK(!bias.has_data() || bias.elements() == columns, "bias has another length");
    if (rows == 0) return;
    const PhiloxBlock mixed = philox(key.seed, key.site, 0);
    const MaskKey mask = {std::uint64_t{mixed[0]} << 32 | mixed[1], key.first_sample,
                          static_cast<std::uint32_t>(static_cast<double>(probability) * 0x1p32),
                          1.0f / (1.0f - probability)};
    dispatch_chunk(x.dtype(), vectors_fit(x.dtype(), columns, {x, bias}), [&]<class Chunk>() {
        using S = ElementOf<Chunk>;
        launch(dropout_kernel<Chunk>, row_grid(context, rows), row_warps * 32, 0, context.queue().stream,
               data_as<S>(x), bias_as<S>(bias), mask, rows, columns, sequence);
    });
}

}  // namespace escalier::kernels::cuda
