// The sample order of Megatron-LM's GPT data sets, bit for bit (formats.md section 1.2).
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "data/corpus.h"
#include "data/token_file.h"

namespace escalier::data {

// numpy.random.RandomState as far as shuffle() needs it.
class RandomState {
 public:
    explicit RandomState(std::uint32_t seed) : generator_(seed) {}

    template <class T>
    void shuffle(std::span<T> values) {  // fewer than 2^32 values
        for (std::size_t i = values.size(); i-- > 1;)
            std::swap(values[i], values[interval(static_cast<std::uint32_t>(i))]);
    }

 private:
    std::uint32_t interval(std::uint32_t max);  // uniform in [0, max]

    std::mt19937 generator_;
};

// How many epochs a run takes and whether the last is shuffled on its own.
struct MegatronEpochs {
    std::int64_t epochs = 1;
    bool separate_final_epoch = false;
    std::int64_t samples_before_final = 0;  // of the earlier epochs, when the final one is separate
};
MegatronEpochs megatron_epochs(std::int64_t tokens, std::int64_t seq_len, std::int64_t samples);

class MegatronOrder {
 public:
    // documents: the sequences of the split; samples: how many the run asks for. The split holds tokens.
    // Throws ConfigError for a seed that numpy refuses, DataError beyond 2^32 samples or repeated documents.
    MegatronOrder(std::shared_ptr<const TokenFile> file, Range documents, std::int64_t seq_len,
                  std::int64_t samples, std::uint64_t seed);

    std::int64_t samples() const { return static_cast<std::int64_t>(shuffle_index_.size()); }
    // The k-th training sample as its place in the stream of shuffled documents.
    std::int64_t stream_sample(std::int64_t k) const;
    // Stream tokens [stream_sample * T, + T) and those one further on; either pointer may be null.
    void read(std::int64_t stream_sample, std::int64_t vocab_size, std::int32_t* inputs,
              std::int32_t* targets) const;

    const std::vector<std::int32_t>& document_index() const { return document_index_; }
    const std::vector<std::uint32_t>& shuffle_index() const { return shuffle_index_; }

 private:
    static constexpr std::size_t anchor_every = 64;

    void read_stream(std::int64_t begin, std::int64_t count, std::int64_t vocab_size,
                     std::int32_t* out) const;
    Range document(std::size_t place) const;

    std::shared_ptr<const TokenFile> file_;
    std::int64_t seq_len_;
    std::vector<std::int32_t> document_index_;
    std::vector<std::uint32_t> shuffle_index_;
    std::vector<std::int64_t> anchors_;  // stream token at which every 64th document begins
};

}  // namespace escalier::data
