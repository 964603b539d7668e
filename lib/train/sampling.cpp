#include "train/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "core/check.h"
#include "core/error.h"
#include "core/rng.h"

namespace escalier::train {

namespace {

void require_finite(std::span<const float> logits, std::int64_t position) {
    for (std::size_t id = 0; id < logits.size(); ++id)
        if (!std::isfinite(logits[id]))
            throw NumericError("token " + std::to_string(position) + " cannot be drawn: the logit of id " +
                               std::to_string(id) + " is " + std::to_string(logits[id]) +
                               ". The weights hold numbers that are not finite, or too large ones.");
}

// Uniform in [0, 1).
double draw(std::uint64_t seed, std::int64_t position) {
    const PhiloxBlock block = philox(seed, stream_of("sampling"), static_cast<std::uint64_t>(position));
    return static_cast<double>((std::uint64_t{block[0]} << 32 | block[1]) >> 11) * 0x1p-53;
}

// The ids that top_k and top_p leave, ranked where there are fewer than all.
std::vector<std::int32_t> candidates(std::span<const float> logits, const SamplingOptions& options) {
    std::vector<std::int32_t> ids(logits.size());
    std::iota(ids.begin(), ids.end(), 0);
    const std::size_t kept =
        options.top_k > 0 ? std::min(static_cast<std::size_t>(options.top_k), ids.size()) : ids.size();
    if (kept == ids.size() && options.top_p >= 1) return ids;
    const auto before = [&](std::int32_t a, std::int32_t b) {
        const float of_a = logits[static_cast<std::size_t>(a)], of_b = logits[static_cast<std::size_t>(b)];
        return of_a != of_b ? of_a > of_b : a < b;
    };
    std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(kept), ids.end(), before);
    ids.resize(kept);
    return ids;
}

// Unnormalised and cumulated, in the order of `ids`.
std::vector<double> cumulated_weights(std::span<const float> logits, const std::vector<std::int32_t>& ids,
                                      double temperature) {
    const float highest = *std::max_element(logits.begin(), logits.end());
    std::vector<double> cumulated(ids.size());
    double sum = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const double logit = logits[static_cast<std::size_t>(ids[i])];
        cumulated[i] = sum += std::exp((logit - highest) / temperature);
    }
    return cumulated;
}

}  // namespace

std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options,
                          std::int64_t position) {
    ESCALIER_CHECK(!logits.empty(), "a draw from no logits");
    require_finite(logits, position);
    if (options.temperature == 0)
        return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    const std::vector<std::int32_t> ids = candidates(logits, options);
    std::vector<double> cumulated = cumulated_weights(logits, ids, options.temperature);
    if (options.top_p < 1) {
        const auto last =
            std::lower_bound(cumulated.begin(), cumulated.end(), options.top_p * cumulated.back());
        cumulated.erase(last + 1, cumulated.end());
    }
    const double threshold = draw(options.seed, position) * cumulated.back();
    const auto at = std::upper_bound(cumulated.begin(), cumulated.end(), threshold) - cumulated.begin();
    return ids[std::min(static_cast<std::size_t>(at), cumulated.size() - 1)];
}

}  // namespace escalier::train
