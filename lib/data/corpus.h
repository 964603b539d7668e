// All files of data.train, opened, checked and cut into the splits.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/job_spec.h"
#include "data/token_file.h"

namespace escalier::data {

enum class Split { train = 0, validation = 1, test = 2 };
std::string to_string(Split split);

// [begin, end)
struct Range {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t size() const { return end - begin; }
    bool operator==(const Range&) const = default;
};

// "98,2,0" to fractions that sum to 1 (one to three numbers; absent ones are 0). Throws ConfigError.
std::array<double, 3> parse_split(const std::string& text);
// count things cut at round(cumulated fraction * count), half to even: Megatron's rule.
std::array<Range, 3> cut(const std::array<double, 3>& fractions, std::int64_t count);

struct CorpusFile {
    std::shared_ptr<const TokenFile> file;
    std::array<Range, 3> tokens;     // per split
    std::array<Range, 3> documents;  // per split; all empty when the file was cut by tokens
};

struct CorpusSource {
    std::string path;               // as the job spec has it
    double weight = 0;              // share of the samples; all sources sum to 1
    std::vector<CorpusFile> files;  // several when path is a pattern (* ? [) and no file, by name
};

// A file with documents is split between documents, by their count. A file without documents, or with too few
// to give every split its share, is split between tokens; data.order: megatron never does that. No sample and
// no target reaches across the end of a split or a file.
class Corpus {
 public:
    // Opens and checks everything. Ids are checked in whole files up to check_bytes and in as much of a
    // larger one, in evenly spread blocks; every later read checks what it reads. Throws ConfigError, IoError
    // or DataError.
    Corpus(const config::DataConfig& data, std::int64_t vocab_size,
           std::int64_t check_bytes = std::int64_t{512} << 20);

    const config::DataConfig& config() const { return config_; }
    std::int64_t vocab_size() const { return vocab_size_; }
    const std::vector<CorpusSource>& sources() const { return sources_; }
    // Of contents, weights and splits; the same on every machine and for every grid.
    std::uint64_t fingerprint() const { return fingerprint_; }
    // Remarks worth a line in the log.
    const std::vector<std::string>& notes() const { return notes_; }

 private:
    CorpusFile open_file(const std::string& path);
    void check_ids(const TokenFile& file) const;
    void note_missing_eod(const TokenFile& file);

    config::DataConfig config_;
    std::int64_t vocab_size_, check_bytes_;
    std::array<double, 3> fractions_;
    std::vector<CorpusSource> sources_;
    std::vector<std::string> notes_;
    std::uint64_t fingerprint_ = 0;
};

}  // namespace escalier::data
