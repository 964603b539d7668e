// Samples that are a function of their number: no files.
#pragma once

#include "core/rng.h"
#include "data/sampler.h"

namespace escalier::train {

class Tokens final : public data::SampleReader {
 public:
    explicit Tokens(std::int64_t seq_len = 16, std::uint32_t vocabulary = 61, std::uint64_t seed = 3)
        : seq_len_(seq_len), vocabulary_(vocabulary), seed_(seed) {}
    std::int64_t seq_len() const override { return seq_len_; }
    void read(std::int64_t sample, std::int32_t* inputs, std::int32_t* targets) const override {
        for (std::int64_t t = 0; t < seq_len(); ++t) {
            if (inputs) inputs[t] = id(sample, t);
            if (targets) targets[t] = id(sample, t + 1);
        }
    }
    std::int64_t valid_targets(std::int64_t, std::int64_t count) const override { return count * seq_len(); }

 private:
    std::int32_t id(std::int64_t sample, std::int64_t t) const {
        return static_cast<std::int32_t>(
            philox(seed_, static_cast<std::uint64_t>(sample), static_cast<std::uint64_t>(t))[0] %
            vocabulary_);
    }
    std::int64_t seq_len_;
    std::uint32_t vocabulary_;
    std::uint64_t seed_;
};

}  // namespace escalier::train
