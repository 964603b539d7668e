#include "model/parameter.h"

#include <cmath>

#include "core/rng.h"

namespace escalier::model {

namespace {

constexpr double standard_deviation = 0.02;  // GPT-2's initializer_range, and Llama's

// Global elements [first, first + count) of the stream.
void fill_normal(float* out, std::uint64_t seed, std::uint64_t stream, std::uint64_t first,
                 std::int64_t count, float scale) {
    std::int64_t i = 0;
    if (count > 0 && first % 2) out[i++] = scale * normal(seed, stream, first);
    for (; i + 1 < count; i += 2) {
        const auto pair = normal_pair(seed, stream, (first + static_cast<std::uint64_t>(i)) / 2);
        out[i] = scale * pair[0];
        out[i + 1] = scale * pair[1];
    }
    if (i < count) out[i] = scale * normal(seed, stream, first + static_cast<std::uint64_t>(i));
}

float scale_of(Init init, std::int64_t num_layers) {
    return static_cast<float>(init == Init::normal_residual
                                  ? standard_deviation / std::sqrt(2.0 * static_cast<double>(num_layers))
                                  : standard_deviation);
}

}  // namespace

void initialize(const ParameterList& parameters, std::uint64_t seed, std::int64_t num_layers,
                ComputePool& pool, device::Device& device) {
    std::vector<float> values;
    for (const Parameter& p : parameters) {
        if (p.weight.elements() == 0) continue;  // a shard of padding
        values.resize(static_cast<std::size_t>(p.weight.elements()));
        float* weight = values.data();
        const bool matrix = p.box.extent.rank() == 2;
        const std::int64_t rows = matrix ? p.box.extent[0] : 1;
        const std::int64_t columns = matrix ? p.box.extent[1] : p.box.extent[0];
        const std::int64_t global_columns = matrix ? p.global_shape[1] : 0;
        const std::int64_t first =
            matrix ? p.box.offset[0] * global_columns + p.box.offset[1] : p.box.offset[0];
        const std::uint64_t stream = stream_of(p.name);
        const float scale = scale_of(p.init, num_layers);
        pool.parallel_for(rows, [&](std::int64_t row, int) {
            float* out = weight + row * columns;
            if (p.init == Init::ones || p.init == Init::zeros) {
                for (std::int64_t i = 0; i < columns; ++i) out[i] = p.init == Init::ones ? 1.0f : 0.0f;
            } else {
                fill_normal(out, seed, stream, static_cast<std::uint64_t>(first + row * global_columns),
                            columns, scale);
            }
        });
        device.copy_from_host(p.weight.data(), weight, p.weight.bytes());
    }
}

}  // namespace escalier::model
