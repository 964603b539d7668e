#include "kernels/dropout.h"

#include <cmath>

#include "core/rng.h"
#include "kernels/common/blocks.h"
#include "kernels/common/cpu_twins.h"

namespace escalier::kernels::cpu {
namespace {

// Everything that the mask of a channel follows from, but for the channel itself.
struct MaskRow {
    std::uint64_t key;     // of (seed, site)
    std::uint64_t sample;  // global
    std::uint64_t position;
    std::uint64_t threshold;  // a 32-bit draw below it drops the channel
};

// One draw serves four neighbouring channels.
void dropout_row(float* x, const float* bias, std::int64_t columns, const MaskRow& mask, float scale) {
    constexpr std::int64_t channels_per_draw = 4;
    for (std::int64_t first = 0; first < columns; first += channels_per_draw) {
        const std::uint64_t counter =
            mask.position << 32 | static_cast<std::uint64_t>(first / channels_per_draw);
        const PhiloxBlock bits = philox(mask.key, mask.sample, counter);
        const std::int64_t end = std::min(columns, first + channels_per_draw);
        for (std::int64_t channel = first; channel < end; ++channel) {
            const float value = bias ? x[channel] + bias[channel] : x[channel];
            const bool dropped = bits[static_cast<std::size_t>(channel - first)] < mask.threshold;
            x[channel] = dropped ? 0.0f : value * scale;
        }
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
    const auto threshold =
        static_cast<std::uint64_t>(std::llround(static_cast<double>(probability) * 0x1p32));
    const float scale = 1.0f / (1.0f - probability);
    float* data = x.as<float>();
    const float* shift = bias.as<float>();
    for_row_blocks(context, rows_of(x), columns, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t row = begin; row < end; ++row) {
            const MaskRow mask = {mask_key, key.first_sample + static_cast<std::uint64_t>(row / sequence),
                                  static_cast<std::uint64_t>(row % sequence), threshold};
            dropout_row(data + row * columns, shift, columns, mask, scale);
        }
    });
}

}  // namespace escalier::kernels::cpu
