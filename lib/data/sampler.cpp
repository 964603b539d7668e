#include "data/sampler.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "core/error.h"
#include "data/fingerprint.h"
#include "data/permutation.h"

namespace escalier::data {
namespace {

std::size_t at(std::int64_t index) {
    return static_cast<std::size_t>(index);
}

std::vector<double> weights_of(const Corpus& corpus) {
    std::vector<double> weights;
    for (const CorpusSource& source : corpus.sources()) weights.push_back(source.weight);
    return weights;
}

// The first of `ends` beyond `value`, and what lies before it.
std::int64_t find_part(const std::vector<std::int64_t>& ends, std::int64_t value, std::int64_t& begin) {
    const auto part = std::upper_bound(ends.begin(), ends.end(), value) - ends.begin();
    begin = part == 0 ? 0 : ends[at(part - 1)];
    return part;
}

}  // namespace

SampleSpace::SampleSpace(std::shared_ptr<const Corpus> corpus, std::int64_t seq_len, Split split)
    : corpus_(std::move(corpus)), seq_len_(seq_len), split_(split) {
    ESCALIER_CHECK(seq_len_ >= 1, "a sample needs a length");
    for (const CorpusSource& source : corpus_->sources()) {
        std::int64_t samples = 0;
        std::vector<std::int64_t>& ends = ends_.emplace_back();
        for (const CorpusFile& file : source.files) {
            const std::int64_t tokens = file.tokens[at(static_cast<int>(split_))].size();
            samples += tokens > seq_len_ ? (tokens - 1) / seq_len_ : 0;
            ends.push_back(samples);
        }
    }
}

std::int64_t SampleSpace::samples(std::int64_t source) const {
    return ends_[at(source)].back();
}

std::int64_t SampleSpace::samples() const {
    std::int64_t sum = 0;
    for (const auto& ends : ends_) sum += ends.back();
    return sum;
}

std::int64_t SampleSpace::unused_tokens() const {
    std::int64_t unused = 0;
    for (std::size_t source = 0; source < ends_.size(); ++source) {
        std::int64_t begin = 0;
        for (std::size_t file = 0; file < ends_[source].size(); ++file) {
            const std::int64_t samples = ends_[source][file] - begin;
            begin = ends_[source][file];
            const std::int64_t tokens =
                corpus_->sources()[source].files[file].tokens[at(static_cast<int>(split_))].size();
            unused += samples > 0 ? tokens - samples * seq_len_ - 1 : tokens;
        }
    }
    return unused;
}

SampleLocation SampleSpace::locate(std::int64_t source, std::int64_t sample) const {
    ESCALIER_CHECK(sample >= 0 && sample < samples(source), "sample outside the split");
    SampleLocation found;
    found.source = source;
    found.sample = sample;
    std::int64_t begin = 0;
    found.file = find_part(ends_[at(source)], sample, begin);
    const CorpusFile& file = corpus_->sources()[at(source)].files[at(found.file)];
    found.token = file.tokens[at(static_cast<int>(split_))].begin + (sample - begin) * seq_len_;
    return found;
}

void SampleSpace::read(const SampleLocation& where, std::int32_t* inputs, std::int32_t* targets) const {
    const TokenFile& file = *corpus_->sources()[at(where.source)].files[at(where.file)].file;
    const std::int64_t vocab_size = corpus_->vocab_size();
    // The token that only the other half needs is checked too, so that first and last stage fail alike.
    std::int32_t other = 0;
    if (inputs) file.read(where.token, seq_len_, vocab_size, inputs);
    if (!inputs) file.read(where.token, 1, vocab_size, &other);
    if (targets) file.read(where.token + 1, seq_len_, vocab_size, targets);
    if (!targets) file.read(where.token + seq_len_, 1, vocab_size, &other);
}

std::string SampleSpace::shortage(std::int64_t source) const {
    const CorpusSource& from = corpus_->sources()[at(source)];
    std::int64_t tokens = 0, all = 0;
    for (const CorpusFile& file : from.files) {
        tokens = std::max(tokens, file.tokens[at(static_cast<int>(split_))].size());
        all += file.file->tokens();
    }
    const std::string needs =
        "one sample needs " + std::to_string(seq_len_ + 1) + " (train.seq_len " + std::to_string(seq_len_) +
        " and one target); use more data, another data.split or a shorter train.seq_len";
    const std::string has = from.path + ": has " + std::to_string(all) + " tokens";
    if (from.files.size() > 1)
        return has + " in " + std::to_string(from.files.size()) + " files, and the " + to_string(split_) +
               " split (data.split " + corpus_->config().split + ") of the largest holds " +
               std::to_string(tokens) + "; " + needs;
    if (tokens == all) return has + ", " + needs;
    return has + ", of which data.split " + corpus_->config().split + " leaves " + std::to_string(tokens) +
           " to the " + to_string(split_) + " split; " + needs;
}

Dataset::Dataset(std::shared_ptr<const Corpus> corpus, std::int64_t seq_len, std::uint64_t seed,
                 std::int64_t run_samples, Split split)
    : corpus_(std::move(corpus)), space_(corpus_, seq_len, split), blend_(weights_of(*corpus_)) {
    for (std::int64_t source = 0; source < space_.sources(); ++source)
        if (space_.samples(source) == 0) throw DataError(space_.shortage(source));
    key_ = mix(mix(mix(seed, corpus_->fingerprint()), static_cast<std::uint64_t>(seq_len)),
               static_cast<std::uint64_t>(split));
    fingerprint_ = key_;
    if (corpus_->config().order != "megatron") return;
    fingerprint_ = mix(fingerprint_, static_cast<std::uint64_t>(run_samples));
    const std::vector<double> weights = weights_of(*corpus_);
    for (std::size_t i = 0; i < weights.size(); ++i) {
        // Megatron asks each source of a blend for half a per cent more than its share.
        const auto wanted = static_cast<std::int64_t>(
            weights.size() == 1
                ? static_cast<double>(run_samples)
                : std::ceil(std::ceil(static_cast<double>(run_samples) * weights[i]) * 1.005));
        const CorpusSource& source = corpus_->sources()[i];
        if (source.files.size() != 1)
            throw ConfigError("data.order: megatron, but " + source.path + " matches " +
                              std::to_string(source.files.size()) +
                              " files; that order takes one .bin/.idx pair per source");
        const CorpusFile& file = source.files.front();
        megatron_.emplace_back(file.file, file.documents[at(static_cast<int>(split))], seq_len, wanted, seed);
    }
    if (megatron_.size() > 1) megatron_blend_ = megatron_blend(weights, run_samples);
}

SampleLocation Dataset::locate(std::int64_t sample) const {
    ESCALIER_CHECK(sample >= 0, "samples count from 0");
    if (!megatron_.empty()) {
        SampleLocation found;
        BlendPick pick{0, sample};
        if (megatron_.size() > 1) {
            ESCALIER_CHECK(sample < static_cast<std::int64_t>(megatron_blend_.size()),
                           "data.order: megatron has no sample beyond the run it was made for");
            pick = megatron_blend_[at(sample)];
        }
        const MegatronOrder& order = megatron_[at(pick.source)];
        found.source = pick.source;
        found.sample = order.stream_sample(pick.index);
        found.token = found.sample * seq_len();
        return found;
    }
    const BlendPick pick = blend_.pick(sample);
    const std::int64_t size = space_.samples(pick.source);
    const std::int64_t epoch = pick.index / size;
    const Permutation permutation(size, mix(key_, static_cast<std::uint64_t>(pick.source)),
                                  static_cast<std::uint64_t>(epoch));
    SampleLocation found = space_.locate(pick.source, permutation(pick.index % size));
    found.epoch = epoch;
    return found;
}

void Dataset::read(std::int64_t sample, std::int32_t* inputs, std::int32_t* targets) const {
    const SampleLocation where = locate(sample);
    if (megatron_.empty()) return space_.read(where, inputs, targets);
    megatron_[at(where.source)].read(where.sample, corpus_->vocab_size(), inputs, targets);
}

EvalSet::EvalSet(std::shared_ptr<const Corpus> corpus, std::int64_t seq_len, std::int64_t samples,
                 Split split)
    : space_(corpus, seq_len, split) {
    const Blend blend(weights_of(*corpus));
    for (std::int64_t source = 0; source < space_.sources(); ++source)
        ends_.push_back(size() + std::min(blend.count(source, samples), space_.samples(source)));
    if (size() == 0) {
        std::int64_t without = 0;
        while (space_.samples(without) > 0) ++without;
        note_ = "no validation: " + space_.shortage(without);
    } else if (size() < samples) {
        note_ = "the " + to_string(split) + " split (data.split " + corpus->config().split + ") has " +
                std::to_string(space_.samples()) + " samples of " + std::to_string(seq_len) +
                " tokens; evaluation uses " + std::to_string(size()) + " of the " + std::to_string(samples) +
                " asked for";
    }
}

SampleLocation EvalSet::locate(std::int64_t sample) const {
    ESCALIER_CHECK(sample >= 0 && sample < size(), "sample outside the validation set");
    std::int64_t begin = 0;
    const std::int64_t source = find_part(ends_, sample, begin);
    const std::int64_t used = ends_[at(source)] - begin, there = space_.samples(source);
    // Spread: sample i of u is i * there / u, in two parts so that nothing overflows.
    const std::int64_t i = sample - begin;
    return space_.locate(source, there / used * i + there % used * i / used);
}

void EvalSet::read(std::int64_t sample, std::int32_t* inputs, std::int32_t* targets) const {
    if (sample < size()) return space_.read(locate(sample), inputs, targets);
    if (inputs) std::fill_n(inputs, seq_len(), 0);
    if (targets) std::fill_n(targets, seq_len(), no_target);
}

std::int64_t EvalSet::valid_targets(std::int64_t first, std::int64_t count) const {
    return std::clamp<std::int64_t>(size() - first, 0, count) * seq_len();
}

void read_micro_batch(const SampleReader& reader, const BatchLayout& layout, std::int64_t consumed,
                      std::int64_t mb, std::int64_t dp_rank, std::int32_t* inputs, std::int32_t* targets) {
    for (std::int64_t row = 0; row < layout.micro_batch; ++row) {
        const std::int64_t offset = row * reader.seq_len();
        reader.read(layout.sample(consumed, mb, dp_rank, row), inputs ? inputs + offset : nullptr,
                    targets ? targets + offset : nullptr);
    }
}

}  // namespace escalier::data
