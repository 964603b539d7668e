#include "data/blend.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace escalier::data {

Blend::Blend(const std::vector<double>& weights) {
    double rest = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (std::size_t i = 0; i < weights.size(); ++i) {
        // Rounded up by 2^-50: k times a fraction such as 1/3 must not fall just short of a whole number.
        const double fraction = i + 1 == weights.size() ? 1.0 : std::min(1.0, weights[i] / rest);
        const auto fixed = static_cast<std::uint64_t>(std::ceil(std::ldexp(fraction, 62))) + (1u << 12);
        fractions_.push_back(std::min(fixed, std::uint64_t{1} << 62));
        rest -= weights[i];
    }
}

std::int64_t Blend::head(std::size_t source, std::int64_t k) const {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::int64_t>(static_cast<Wide>(k) * fractions_[source] >> 62);
}

BlendPick Blend::pick(std::int64_t k) const {
    for (std::size_t source = 0;; ++source) {
        const std::int64_t taken = head(source, k);
        if (head(source, k + 1) > taken) return {static_cast<std::int64_t>(source), taken};
        k -= taken;
    }
}

std::int64_t Blend::count(std::int64_t source, std::int64_t k) const {
    for (std::int64_t i = 0; i < source; ++i) k -= head(static_cast<std::size_t>(i), k);
    return head(static_cast<std::size_t>(source), k);
}

std::vector<BlendPick> megatron_blend(const std::vector<double>& weights, std::int64_t samples) {
    std::vector<BlendPick> order;
    order.reserve(static_cast<std::size_t>(samples));
    std::vector<std::int64_t> taken(weights.size(), 0);
    for (std::int64_t k = 0; k < samples; ++k) {
        const double due = std::max(static_cast<double>(k), 1.0);
        std::size_t best = 0;
        for (std::size_t i = 1; i < weights.size(); ++i)
            if (weights[i] * due - static_cast<double>(taken[i]) >
                weights[best] * due - static_cast<double>(taken[best]))
                best = i;
        order.push_back({static_cast<std::int64_t>(best), taken[best]++});
    }
    return order;
}

double numpy_sum(std::span<const double> terms) {
    constexpr std::size_t lanes = 8, block = 128;
    const std::size_t count = terms.size();
    if (count < lanes) return std::accumulate(terms.begin(), terms.end(), 0.0);
    if (count > block) {
        const std::size_t half = count / 2 / lanes * lanes;
        return numpy_sum(terms.first(half)) + numpy_sum(terms.subspan(half));
    }
    std::array<double, lanes> partial;
    std::copy_n(terms.begin(), lanes, partial.begin());
    std::size_t i = lanes;
    for (; i + lanes <= count; i += lanes)
        for (std::size_t lane = 0; lane < lanes; ++lane) partial[lane] += terms[i + lane];
    const auto& p = partial;
    const double sum = ((p[0] + p[1]) + (p[2] + p[3])) + ((p[4] + p[5]) + (p[6] + p[7]));
    return std::accumulate(terms.begin() + static_cast<std::ptrdiff_t>(i), terms.end(), sum);
}

}  // namespace escalier::data
