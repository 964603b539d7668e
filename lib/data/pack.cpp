#include "data/pack.h"

#include <sys/stat.h>

#include <algorithm>
#include <string_view>

#include "core/error.h"
#include "data/documents.h"
#include "data/megatron_writer.h"

namespace escalier::data {
namespace {

// Where to cut: after the last line end within the piece, else after the last space, else between two UTF-8
// characters. A tokenizer that sees words and lines whole gives the same ids as on the uncut text, but for
// models that mark the begin of their input.
std::size_t piece_end(std::string_view text, std::size_t piece_bytes) {
    if (text.size() <= piece_bytes) return text.size();
    const std::string_view piece = text.substr(0, piece_bytes);
    for (const char mark : {'\n', ' '})
        if (const std::size_t found = piece.rfind(mark); found != std::string_view::npos) return found + 1;
    std::size_t end = piece_bytes;
    const auto continues = [&](std::size_t at) {
        return (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
    };
    while (end > 1 && piece_bytes - end < 3 && continues(end)) --end;
    return end;
}

struct FileKind {
    std::string_view begin;
    const char* name;
    const char* remedy;
};

constexpr FileKind no_text[] = {
    {"\037\213", "gzip-compressed", "unpack it first (gunzip)"},
    {"\050\265\057\375", "zstd-compressed", "unpack it first (unzstd)"},
    {"\3757zXZ", "xz-compressed", "unpack it first (unxz)"},
    {"PK\003\004", "a zip archive", "unpack it first (unzip)"},
    {"PAR1", "a Parquet file", "convert it to JSONL first"},
    {"\223NUMPY", "a NumPy array", "give its text as text or JSONL"},
};

void refuse_what_is_no_text(const MappedFile& file) {
    const std::string_view text(reinterpret_cast<const char*>(file.data()),
                                static_cast<std::size_t>(file.size()));
    for (const FileKind& kind : no_text)
        if (text.starts_with(kind.begin))
            throw ConfigError(file.path() + ": is " + kind.name + "; " + kind.remedy);
    if (const std::size_t at = text.find('\0'); at != std::string_view::npos)
        throw DataError(file.path() + ": has a NUL byte at offset " + std::to_string(at) +
                        ", so that it is no UTF-8 text; convert it first");
}

// Before anything is written: the outputs must be new or an old pair, and none of the inputs.
void check_outputs(const std::vector<std::string>& inputs, const std::string& prefix) {
    if (prefix.empty())
        throw ConfigError("OUTPREFIX is empty; the last argument is the prefix of the new .bin and .idx");
    struct stat status {};
    if (::stat(prefix.c_str(), &status) == 0)
        throw ConfigError(
            prefix +
            ": is an existing file or folder; the last argument is the OUTPREFIX of the new .bin and .idx");
    for (const char* end : {".bin", ".idx"}) {
        const std::string output = prefix + end;
        struct stat old {};
        if (::stat(output.c_str(), &old) != 0) continue;
        for (const std::string& input : inputs)
            if (::stat(input.c_str(), &status) == 0 && status.st_dev == old.st_dev &&
                status.st_ino == old.st_ino)
                throw ConfigError(output + ": is the same file as the input " + input +
                                  " and would be replaced; give another OUTPREFIX");
    }
}

}  // namespace

PackResult pack(const std::vector<std::string>& inputs, const std::string& prefix, const Tokenizer& tokenizer,
                const PackOptions& options) {
    if (options.append_eod && tokenizer.eod() < 0)
        throw ConfigError("--tokenizer: this model has no end-of-document id (eos); pack with --no-eod");
    check_outputs(inputs, prefix);
    MegatronWriter writer(prefix, tokenizer.vocab_size(), options.max_sequence);
    PackResult result;
    std::vector<std::int32_t> ids;
    for (const std::string& input : inputs) {
        const MappedFile file(input);
        refuse_what_is_no_text(file);
        DocumentKind kind = document_kind(input);
        if (kind == DocumentKind::whole_file && options.split_blank_lines) kind = DocumentKind::blank_lines;
        for_each_document(file, kind, options.key, [&](std::string_view text) {
            result.text_bytes += static_cast<std::int64_t>(text.size());
            while (!text.empty()) {
                const std::size_t end = piece_end(text, options.piece_bytes);
                ids.clear();
                tokenizer.encode(text.substr(0, end), ids);
                writer.add(ids);
                text.remove_prefix(end);
            }
            if (options.append_eod) writer.add(std::vector{tokenizer.eod()});
            writer.end_document();
        });
    }
    if (writer.documents() == 0) throw DataError(inputs.front() + ": holds no text; nothing to pack");
    writer.finish();
    result.documents = writer.documents();
    result.tokens = writer.tokens();
    result.type = writer.type();
    return result;
}

}  // namespace escalier::data
