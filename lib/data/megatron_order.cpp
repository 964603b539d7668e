#include "data/megatron_order.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/check.h"
#include "core/error.h"

namespace escalier::data {

std::uint32_t RandomState::interval(std::uint32_t max) {
    std::uint32_t mask = max;
    for (int shift : {1, 2, 4, 8, 16}) mask |= mask >> shift;
    for (;;) {
        const auto value = static_cast<std::uint32_t>(generator_()) & mask;
        if (value <= max) return value;
    }
}

MegatronEpochs megatron_epochs(std::int64_t tokens, std::int64_t seq_len, std::int64_t samples) {
    MegatronEpochs plan;
    const std::int64_t wanted = samples * seq_len + 1;
    plan.epochs = std::max<std::int64_t>(1, (wanted + tokens - 1) / tokens);
    if (plan.epochs == 1) return plan;
    plan.samples_before_final = ((plan.epochs - 1) * tokens - 1) / seq_len;
    const std::int64_t in_final = samples - plan.samples_before_final;
    const std::int64_t per_epoch = (tokens - 1) / seq_len;
    plan.separate_final_epoch = in_final < static_cast<std::int64_t>(0.80 * static_cast<double>(per_epoch));
    return plan;
}

MegatronOrder::MegatronOrder(std::shared_ptr<const TokenFile> file, Range documents, std::int64_t seq_len,
                             std::int64_t samples, std::uint64_t seed)
    : file_(std::move(file)), seq_len_(seq_len) {
    constexpr std::uint64_t limit = std::numeric_limits<std::uint32_t>::max();
    if (seed > limit)
        throw ConfigError("run.seed: " + std::to_string(seed) +
                          " with data.order: megatron; numpy's RandomState takes "
                          "seeds up to 4294967295");
    const std::int64_t tokens = file_->document_begin(documents.end) - file_->document_begin(documents.begin);
    const MegatronEpochs plan = megatron_epochs(tokens, seq_len, samples);
    const std::int64_t all_samples = (plan.epochs * tokens - 1) / seq_len;
    const std::int64_t all_documents = plan.epochs * documents.size();
    if (all_samples >= static_cast<std::int64_t>(limit) ||
        all_documents >= static_cast<std::int64_t>(limit) ||
        documents.end > std::numeric_limits<std::int32_t>::max())
        throw DataError(
            file_->path() + ": data.order: megatron would need " + std::to_string(all_samples) +
            " samples and " + std::to_string(all_documents) +
            " documents over all epochs; its indices hold fewer than 4294967295. Use data.order: native");

    document_index_.resize(static_cast<std::size_t>(all_documents));
    for (auto begin = document_index_.begin(); begin != document_index_.end(); begin += documents.size())
        std::iota(begin, begin + documents.size(), static_cast<std::int32_t>(documents.begin));
    shuffle_index_.resize(static_cast<std::size_t>(all_samples));
    std::iota(shuffle_index_.begin(), shuffle_index_.end(), 0u);

    RandomState random(static_cast<std::uint32_t>(seed));
    const auto shuffle_parts = [&](auto& values, std::int64_t first_part) {
        const std::span all(values);
        if (plan.separate_final_epoch) {
            random.shuffle(all.first(static_cast<std::size_t>(first_part)));
            random.shuffle(all.subspan(static_cast<std::size_t>(first_part)));
        } else {
            random.shuffle(all);
        }
    };
    shuffle_parts(document_index_, all_documents - documents.size());
    shuffle_parts(shuffle_index_, plan.samples_before_final);

    std::int64_t token = 0;
    for (std::size_t place = 0; place < document_index_.size(); ++place) {
        if (place % anchor_every == 0) anchors_.push_back(token);
        token += document(place).size();
    }
}

Range MegatronOrder::document(std::size_t place) const {
    const std::int64_t id = document_index_[place];
    return {file_->document_begin(id), file_->document_begin(id + 1)};
}

std::int64_t MegatronOrder::stream_sample(std::int64_t k) const {
    ESCALIER_CHECK(k >= 0 && k < samples(),
                   "data.order: megatron has no sample beyond the run it was made for");
    return shuffle_index_[static_cast<std::size_t>(k)];
}

void MegatronOrder::read(std::int64_t stream_sample, std::int64_t vocab_size, std::int32_t* inputs,
                         std::int32_t* targets) const {
    const std::int64_t begin = stream_sample * seq_len_;
    // The token that only the other half needs is checked too, so that first and last stage fail alike.
    std::int32_t other = 0;
    read_stream(begin, inputs ? seq_len_ : 1, vocab_size, inputs ? inputs : &other);
    read_stream(targets ? begin + 1 : begin + seq_len_, targets ? seq_len_ : 1, vocab_size,
                targets ? targets : &other);
}

void MegatronOrder::read_stream(std::int64_t begin, std::int64_t count, std::int64_t vocab_size,
                                std::int32_t* out) const {
    const auto anchor = std::upper_bound(anchors_.begin(), anchors_.end(), begin) - 1;
    std::int64_t skip = begin - *anchor;
    for (std::size_t place = static_cast<std::size_t>(anchor - anchors_.begin()) * anchor_every; count > 0;
         ++place) {
        const Range tokens = document(place);
        if (skip >= tokens.size()) {
            skip -= tokens.size();
            continue;
        }
        const std::int64_t piece = std::min(count, tokens.size() - skip);
        file_->read(tokens.begin + skip, piece, vocab_size, out);
        out += piece;
        count -= piece;
        skip = 0;
    }
}

}  // namespace escalier::data
