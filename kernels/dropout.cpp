#include "kernels/dropout.h"

#include <cmath>

#include "core/rng.h"
#include "kernels/common/blocks.h"
#include "kernels/common/cpu_twins.h"
#include "kernels/common/simd.h"

namespace escalier::kernels::cpu {
namespace {

// Everything that the mask of a channel follows from, but for the channel itself.
struct MaskRow {
    std::uint64_t key;     // of (seed, site)
    std::uint64_t sample;  // global
    std::uint64_t position;
    std::uint32_t threshold;  // a 32-bit draw below it drops the channel
};

constexpr std::int64_t draws = 64;  // drawn together
constexpr std::int64_t channels_per_draw = 4;

// philox() of core/rng.h for `draws` successive counters: one loop over draws with all rounds inside, which
// the compiler vectorises. bits[4 * draw + word].
ESCALIER_INLINE void philox_draws(std::uint32_t* __restrict bits, const MaskRow& mask,
                                  std::uint32_t first_draw) {
    const auto position = static_cast<std::uint32_t>(mask.position);
    const auto sample_low = static_cast<std::uint32_t>(mask.sample);
    const auto sample_high = static_cast<std::uint32_t>(mask.sample >> 32);
    const auto key_low = static_cast<std::uint32_t>(mask.key),
               key_high = static_cast<std::uint32_t>(mask.key >> 32);
    for (std::uint32_t i = 0; i < draws; ++i) {
        std::uint32_t c0 = first_draw + i, c1 = position, c2 = sample_low, c3 = sample_high;
        std::uint32_t k0 = key_low, k1 = key_high;
#pragma GCC unroll 10
        for (int round = 0; round < 10; ++round) {
            const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c0;
            const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c2;
            c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
            c1 = static_cast<std::uint32_t>(p1);
            c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
            c3 = static_cast<std::uint32_t>(p0);
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        bits[4 * i] = c0;
        bits[4 * i + 1] = c1;
        bits[4 * i + 2] = c2;
        bits[4 * i + 3] = c3;
    }
}

// Draw number d of a row serves channels 4d .. 4d + 3.
ESCALIER_VECTORIZED void dropout_row(float* x, const float* bias, std::int64_t columns, const MaskRow& mask,
                                     float scale) {
    constexpr std::int64_t batch = draws * channels_per_draw;
    for (std::int64_t first = 0; first < columns; first += batch) {
        std::uint32_t bits[batch];
        philox_draws(bits, mask, static_cast<std::uint32_t>(first / channels_per_draw));
        const std::int64_t count = std::min(batch, columns - first);
        float* values = x + first;
        for (std::int64_t i = 0; i < count && bias; ++i) values[i] += bias[first + i];
        for (std::int64_t i = 0; i < count; ++i)
            values[i] = bits[i] < mask.threshold ? 0.0f : values[i] * scale;
    }
}

}  // namespace

void dropout(const OpContext& context, TensorView x, TensorView bias, const DropoutKey& key,
             float probability, std::int64_t sequence) {
    ESCALIER_CHECK(probability >= 0.0f && probability < 1.0f, "dropout probability outside [0, 1)");
    const std::int64_t columns = columns_of(x);
    ESCALIER_CHECK(!bias.has_data() || bias.elements() == columns, "bias has another length");
    const PhiloxBlock mixed = philox(key.seed, key.site, 0);
    const std::uint64_t mask_key = std::uint64_t{mixed[0]} << 32 | mixed[1];
    const auto threshold = static_cast<std::uint32_t>(static_cast<double>(probability) * 0x1p32);
    const float scale = 1.0f / (1.0f - probability);
    float* data = x.as<float>();
    const float* shift = bias.as<float>();
    for_row_blocks(context, rows_of(x), columns, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t row = begin; row < end; ++row) {
            const MaskRow mask = {mask_key, *key.first_sample + static_cast<std::uint64_t>(row / sequence),
                                  static_cast<std::uint64_t>(row % sequence), threshold};
            dropout_row(data + row * columns, shift, columns, mask, scale);
        }
    });
}

}  // namespace escalier::kernels::cpu
