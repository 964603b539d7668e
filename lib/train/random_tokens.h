// Token ids that a counter-based generator draws, for measurements: nothing is read from disk.
#pragma once

#include "data/sampler.h"

namespace escalier::train {

class RandomTokens final : public data::SampleReader {
 public:
    RandomTokens(std::int64_t seq_len, std::int64_t vocab) : seq_len_(seq_len), vocab_(vocab) {}
    std::int64_t seq_len() const override { return seq_len_; }
    void read(std::int64_t sample, std::int32_t* inputs, std::int32_t* targets) const override;
    std::int64_t valid_targets(std::int64_t, std::int64_t count) const override { return count * seq_len_; }

 private:
    std::int32_t token(std::int64_t sample, std::int64_t t) const;
    std::int64_t seq_len_, vocab_;
};

}  // namespace escalier::train
