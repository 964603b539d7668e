#include "train/random_tokens.h"

#include "core/rng.h"

namespace escalier::train {

void RandomTokens::read(std::int64_t sample, std::int32_t* inputs, std::int32_t* targets) const {
    for (std::int64_t t = 0; t < seq_len_; ++t) {
        if (inputs) inputs[t] = token(sample, t);
        if (targets) targets[t] = token(sample, t + 1);
    }
}

std::int32_t RandomTokens::token(std::int64_t sample, std::int64_t t) const {
    const PhiloxBlock block = philox(1, static_cast<std::uint64_t>(sample), static_cast<std::uint64_t>(t));
    return static_cast<std::int32_t>(block[0] % static_cast<std::uint64_t>(vocab_));
}

}  // namespace escalier::train
