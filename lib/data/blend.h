// Which source the k-th sample of a weighted blend comes from.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace escalier::data {

struct BlendPick {
    std::int64_t source = 0;
    std::int64_t index = 0;  // counts the samples taken from that source, from 0
};

// Native order. Random access: of the first k samples source 0 takes floor(k * w0 / sum), the others share
// the rest in the same way. Every source is within one sample per later source of its due share at any k, and
// equal weights use every sample once before any is used again.
class Blend {
 public:
    explicit Blend(const std::vector<double>& weights);  // positive
    BlendPick pick(std::int64_t k) const;
    // Samples of `source` among the first k.
    std::int64_t count(std::int64_t source, std::int64_t k) const;

 private:
    std::int64_t head(std::size_t source, std::int64_t k) const;

    std::vector<std::uint64_t> fractions_;  // weight over the weights from here on, in units of 2^-62
};

// Megatron order (formats.md 1.2.9): greedily the source with the largest w * max(k, 1) - taken, first wins
// ties. weights: each divided by numpy_sum() of all.
std::vector<BlendPick> megatron_blend(const std::vector<double>& weights, std::int64_t samples);

// The sum as numpy.sum rounds it, by which Megatron divides weights: from eight terms on in eight partial
// sums, beyond 128 by halves.
double numpy_sum(std::span<const double> terms);

}  // namespace escalier::data
