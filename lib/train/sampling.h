// Which token comes next, drawn from its logits.
#pragma once

#include <cstdint>
#include <span>

namespace escalier::train {

// With probabilities p = softmax(logits / temperature), tokens ranked by p, the lower id first among equals:
//   top_k  keeps the first k;
//   top_p  keeps, of these, the fewest first ones whose share of the kept probability is at least top_p (the
//          nucleus of Holtzman et al. 2020): at least one.
// The token is drawn among those kept, in proportion to p.
struct SamplingOptions {
    double temperature = 0.8;   // >= 0; 0: greedy, the first of the ranking
    std::int64_t top_k = 0;     // 0: all
    double top_p = 1.0;         // in (0, 1]; 1: all
    std::uint64_t seed = 1234;  // the draws are a pure function of (seed, position)
};

// position: of the new token in the text. Throws NumericError where a logit is NaN or infinite.
std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options,
                          std::int64_t position);

}  // namespace escalier::train
