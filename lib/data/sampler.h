// The order of the training samples and the fixed validation set. The whole state of the data is one number,
// consumed_samples: sample k of a run is a pure function of data, seed and k, never of grid or steps.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/blend.h"
#include "data/corpus.h"
#include "data/megatron_order.h"

namespace escalier::data {

// Marks a target that counts neither in loss nor in gradient.
inline constexpr std::int32_t no_target = -1;

// What the trainer reads samples from. Reading is const, thread-safe and allocates nothing.
class SampleReader {
 public:
    virtual ~SampleReader() = default;
    virtual std::int64_t seq_len() const = 0;  // T
    // inputs[T] and targets[T]; a null pointer leaves that half out. Targets are ids or no_target. Documents
    // are concatenated and attention crosses them. Throws DataError at an id outside the vocabulary.
    virtual void read(std::int64_t sample, std::int32_t* inputs, std::int32_t* targets) const = 0;
    // Targets other than no_target in samples [first, first + count): known without reading, alike on all
    // ranks.
    virtual std::int64_t valid_targets(std::int64_t first, std::int64_t count) const = 0;
};

// Where a sample comes from, for logs and tests.
struct SampleLocation {
    std::int64_t source = 0;  // place in data.train
    std::int64_t file = 0;    // place in the source's sorted files
    std::int64_t epoch = 0;   // of the source
    std::int64_t sample = 0;  // in file order, within the source's split
    std::int64_t token = 0;   // first token: in the file; megatron order: in the shuffled stream
};

// The samples that are there once: T + 1 tokens each, sample i of a file's split starts at its token i * T.
class SampleSpace {
 public:
    SampleSpace(std::shared_ptr<const Corpus> corpus, std::int64_t seq_len, Split split);

    std::int64_t seq_len() const { return seq_len_; }
    std::int64_t sources() const { return static_cast<std::int64_t>(ends_.size()); }
    std::int64_t samples(std::int64_t source) const;
    std::int64_t samples() const;  // of all sources
    // Tokens that are neither input nor target of a sample: at the ends of the files' splits, less than T
    // each, and splits too short for one sample.
    std::int64_t unused_tokens() const;
    SampleLocation locate(std::int64_t source, std::int64_t sample) const;
    void read(const SampleLocation& at, std::int32_t* inputs, std::int32_t* targets) const;
    // "FILE has 16 tokens in …, one sample needs 17": what to say of a source without samples.
    std::string shortage(std::int64_t source) const;

 private:
    std::shared_ptr<const Corpus> corpus_;
    std::int64_t seq_len_;
    Split split_;
    std::vector<std::vector<std::int64_t>> ends_;  // per source and file: samples up to and with the file
};

// The training samples: sample k = 0, 1, … over all epochs, without end.
//   native: epoch e of a source is a permutation of its samples, a pure function of (seed, e, fingerprint,
//   T). Several
//     sources are blended by weight; each runs through its own epochs. All samples of a source are used once
//     before any is used again; a last global batch goes on into the next epoch.
//   megatron: formats.md 1.2, bit for bit. Its order depends on the length of the run, `run_samples`
//     = train.steps * train.global_batch, beyond which it has no samples.
class Dataset final : public SampleReader {
 public:
    // Throws DataError when a source has not one sample.
    Dataset(std::shared_ptr<const Corpus> corpus, std::int64_t seq_len, std::uint64_t seed,
            std::int64_t run_samples, Split split = Split::train);

    std::int64_t seq_len() const override { return space_.seq_len(); }
    void read(std::int64_t sample, std::int32_t* inputs, std::int32_t* targets) const override;
    std::int64_t valid_targets(std::int64_t, std::int64_t count) const override { return count * seq_len(); }

    std::int64_t samples_per_epoch() const { return space_.samples(); }  // all sources once
    std::int64_t unused_tokens() const { return space_.unused_tokens(); }
    SampleLocation locate(std::int64_t sample) const;
    // Differs when a resumed run would not see the same samples in the same order.
    std::uint64_t fingerprint() const { return fingerprint_; }

 private:
    std::shared_ptr<const Corpus> corpus_;
    SampleSpace space_;
    Blend blend_;
    std::uint64_t key_ = 0;
    std::uint64_t fingerprint_ = 0;
    std::vector<MegatronOrder> megatron_;  // one per source; empty in native order
    std::vector<BlendPick> megatron_blend_;
};

// The fixed validation set: up to `samples` whole samples, spread evenly over each source's split, in an
// order that depends on neither seed nor grid nor step. Samples at and beyond size() exist too, with
// no_target everywhere, so that a last, short batch needs no other shape.
class EvalSet final : public SampleReader {
 public:
    // samples = eval.batches * train.global_batch.
    EvalSet(std::shared_ptr<const Corpus> corpus, std::int64_t seq_len, std::int64_t samples,
            Split split = Split::validation);

    std::int64_t seq_len() const override { return space_.seq_len(); }
    void read(std::int64_t sample, std::int32_t* inputs, std::int32_t* targets) const override;
    std::int64_t valid_targets(std::int64_t first, std::int64_t count) const override;

    std::int64_t size() const { return ends_.empty() ? 0 : ends_.back(); }  // samples; 0: an empty split
    std::int64_t batches(std::int64_t global_batch) const {
        return (size() + global_batch - 1) / global_batch;
    }
    SampleLocation locate(std::int64_t sample) const;  // sample < size()
    // Empty, or why there are fewer samples than asked for.
    const std::string& note() const { return note_; }

 private:
    SampleSpace space_;
    std::vector<std::int64_t> ends_;  // per source: samples up to and with it
    std::string note_;
};

// How a global batch is dealt out: from consumed_samples c it is samples [c, c + global_batch), in groups of
// micro_batch * dp; micro-batch `mb` is group mb, of which dp rank r takes [r * micro_batch, (r + 1) *
// micro_batch). So a global batch holds the same samples for every grid and micro-batch size.
struct BatchLayout {
    std::int64_t micro_batch = 1;
    std::int64_t dp = 1;

    std::int64_t sample(std::int64_t consumed, std::int64_t mb, std::int64_t dp_rank,
                        std::int64_t row) const {
        return consumed + (mb * dp + dp_rank) * micro_batch + row;
    }
};

// inputs and targets are [micro_batch, T]; either may be null.
void read_micro_batch(const SampleReader& reader, const BatchLayout& layout, std::int64_t consumed,
                      std::int64_t mb, std::int64_t dp_rank, std::int32_t* inputs, std::int32_t* targets);

}  // namespace escalier::data
