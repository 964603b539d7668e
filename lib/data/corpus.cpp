#include "data/corpus.h"

#include <glob.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "core/error.h"
#include "data/blend.h"
#include "data/fingerprint.h"
#include "data/megatron_file.h"
#include "data/tokenizer.h"

namespace escalier::data {
namespace {

constexpr std::int64_t check_blocks = 512;

bool is_file(const std::string& path) {
    std::error_code ignored;
    return std::filesystem::is_regular_file(path, ignored);
}

// The files of a pattern, sorted; a Megatron pair counts once, by its prefix. A name that exists as it stands
// is no pattern.
std::vector<std::string> expand(const std::string& path, const std::string& format) {
    if (path.find_first_of("*?[") == std::string::npos || is_file(path)) return {path};
    if ((format == "megatron" || format == "auto") && is_file(megatron_prefix(path) + ".idx")) return {path};
    glob_t found{};
    const int status = ::glob(path.c_str(), 0, nullptr, &found);
    std::vector<std::string> files;
    if (status == 0) files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    ::globfree(&found);
    if (files.empty()) throw IoError::read(path + ": no file matches the pattern");
    for (std::string& file : files)
        if (format == "megatron" || (format == "auto" && sniff_format(file) == FileFormat::megatron))
            file = megatron_prefix(file);
    std::sort(files.begin(), files.end());
    files.erase(std::unique(files.begin(), files.end()), files.end());
    return files;
}

}  // namespace

std::string to_string(Split split) {
    return split == Split::train ? "train" : split == Split::validation ? "validation" : "test";
}

std::array<double, 3> parse_split(const std::string& text) {
    const auto fail = [&] {
        throw ConfigError("data.split: \"" + text +
                          "\" is not one to three shares of train, validation and test, such as \"98,2,0\"");
    };
    std::array<double, 3> shares{};
    std::size_t count = 0;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        std::string part = text.substr(begin, end - begin);
        part.erase(0, part.find_first_not_of(' '));
        part.erase(part.find_last_not_of(' ') + 1);
        double share = 0;
        const auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), share);
        if (error != std::errc{} || stop != part.data() + part.size() || !std::isfinite(share) || share < 0 ||
            count == 3)
            fail();
        shares[count++] = share;
        begin = end + 1;
    }
    const double sum = shares[0] + shares[1] + shares[2];
    if (!(sum > 0) || !std::isfinite(sum)) fail();
    for (double& share : shares) share /= sum;
    return shares;
}

std::array<Range, 3> cut(const std::array<double, 3>& fractions, std::int64_t count) {
    std::array<Range, 3> ranges;
    double cumulated = 0;
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < 3; ++i) {
        cumulated += fractions[i];
        const auto end = static_cast<std::int64_t>(std::nearbyint(cumulated * static_cast<double>(count)));
        ranges[i] = {begin, std::min(end, count)};
        begin = ranges[i].end;
    }
    return ranges;
}

Corpus::Corpus(const config::DataConfig& data, std::int64_t vocab_size, std::int64_t check_bytes)
    : config_(data), vocab_size_(vocab_size), check_bytes_(check_bytes), fractions_(parse_split(data.split)) {
    if (data.train.empty()) throw ConfigError("data.train: names no file; give at least one {path: …}");
    if (data.order != "native" && data.order != "megatron")
        throw ConfigError("data.order: " + data.order + " is not known; use native or megatron");
    std::vector<double> weights;
    for (std::size_t i = 0; i < data.train.size(); ++i) {
        if (!std::isfinite(data.train[i].weight) || data.train[i].weight <= 0)
            throw ConfigError("data.train[" + std::to_string(i) +
                              "].weight: " + std::to_string(data.train[i].weight) + " for " +
                              data.train[i].path + "; a weight is above 0 (leave the source out instead)");
        weights.push_back(data.train[i].weight);
    }
    const double sum =
        data.order == "megatron" ? numpy_sum(weights) : std::accumulate(weights.begin(), weights.end(), 0.0);
    for (double fraction : fractions_)
        fingerprint_ = mix(fingerprint_, std::bit_cast<std::uint64_t>(fraction));
    for (const config::DataSource& wanted : data.train) {
        CorpusSource source;
        source.path = wanted.path;
        source.weight = wanted.weight / sum;
        fingerprint_ = mix(fingerprint_, std::bit_cast<std::uint64_t>(source.weight));
        for (const std::string& path : expand(wanted.path, data.format)) {
            source.files.push_back(open_file(path));
            const CorpusFile& file = source.files.back();
            fingerprint_ = mix(fingerprint_, file.file->fingerprint());
            for (const Range& range : file.tokens)
                fingerprint_ = mix(fingerprint_, static_cast<std::uint64_t>(range.size()));
        }
        sources_.push_back(std::move(source));
    }
}

CorpusFile Corpus::open_file(const std::string& path) {
    CorpusFile result;
    result.file = open_token_file(path, config_.format, config_.tokenizer);
    const TokenFile& file = *result.file;
    const bool megatron_order = config_.order == "megatron";
    if (megatron_order && file.format() != FileFormat::megatron)
        throw ConfigError(
            "data.order: megatron, but " + path + " is of format " + to_string(file.format()) +
            "; that order is defined over the sequences of Megatron .bin/.idx files. Use order native");
    if ((file.format() == FileFormat::text || file.format() == FileFormat::jsonl) &&
        vocab_size_ < byte_vocab_size)
        throw ConfigError(
            "model.vocab_size: " + std::to_string(vocab_size_) + ", but " + path +
            " is read with the byte tokenizer, whose ids reach 256; set model.vocab_size to 257");
    bool by_documents = file.documents() > 0;
    if (by_documents) {
        result.documents = cut(fractions_, file.documents());
        for (std::size_t i = 0; i < 3; ++i) {
            const Range& range = result.documents[i];
            result.tokens[i] = {file.document_begin(range.begin), file.document_begin(range.end)};
            if (fractions_[i] > 0 && range.size() == 0 && !megatron_order) by_documents = false;
        }
    }
    if (!by_documents) {
        if (file.documents() > 1)
            notes_.push_back(file.path() + ": " + std::to_string(file.documents()) +
                             " documents are too few for data.split " + config_.split +
                             "; it is split between tokens");
        result.documents = {};
        result.tokens = cut(fractions_, file.tokens());
    }
    check_ids(file);
    note_missing_eod(file);
    return result;
}

void Corpus::check_ids(const TokenFile& file) const {
    if (file.bytes() <= check_bytes_) return file.check(0, file.tokens(), vocab_size_);
    const std::int64_t block = check_bytes_ / check_blocks / width(file.type());
    const std::int64_t stride = (file.tokens() - block) / (check_blocks - 1);
    for (std::int64_t i = 0; i < check_blocks; ++i) file.check(i * stride, block, vocab_size_);
}

void Corpus::note_missing_eod(const TokenFile& file) {
    if (file.documents() < 2) return;
    std::int64_t seen = 0;
    std::int32_t first = 0;
    for (std::int64_t i = 0; i < std::min<std::int64_t>(file.documents(), 1000); ++i) {
        const std::int64_t end = file.document_begin(i + 1);
        if (end == file.document_begin(i)) continue;
        std::int32_t last = 0;
        file.read(end - 1, 1, vocab_size_, &last);
        if (seen++ == 0) first = last;
        if (last != first) {
            notes_.push_back(
                file.path() +
                ": documents do not end with a common id, so no end of document was appended; the model "
                "will not learn to end a text");
            return;
        }
    }
}

}  // namespace escalier::data
