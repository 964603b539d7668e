// Text generation from a weight file, in one process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/mpi_env.h"
#include "data/tokenizer.h"
#include "train/weight_metadata.h"

namespace escalier::train {

struct SamplingOptions {
    double temperature = 0.8;   // 0: greedy, the most probable token each time (the lowest id among equals)
    std::int64_t top_k = 0;     // keep the k most probable tokens; 0: all
    std::uint64_t seed = 1234;  // the draws are a pure function of (seed, position)
};

// Picks the next token from its logits. position: of the new token in the text.
std::int32_t sample_token(const float* logits, std::int64_t vocabulary, const SamplingOptions& options,
                          std::int64_t position);

class Generator {
 public:
    // Throws IoError or DataError for a weight file that cannot be used.
    Generator(const std::string& weights, comm::MpiEnv& env, int threads);
    ~Generator();

    const data::Tokenizer& tokenizer() const;
    // Logits [vocabulary] of the token that follows `ids` (their last seq_len, at least one).
    const float* next_logits(const std::vector<std::int32_t>& ids);
    std::int64_t vocabulary() const;
    // Appends up to `count` tokens to `ids`, each reported as it comes; stops at the end-of-document token.
    void generate(std::vector<std::int32_t>& ids, std::int64_t count, const SamplingOptions& options,
                  const std::function<void(std::int32_t)>& on_token);

 private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace escalier::train
