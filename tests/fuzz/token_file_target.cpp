#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include "data/token_file.h"
#include "scratch_folder.h"
#include "targets.h"

namespace escalier::fuzz {

namespace {

void read_everything(const data::TokenFile& file) {
    for (std::int64_t document = 0; document <= file.documents() && file.documents() > 0; ++document)
        file.document_begin(document);
    file.fingerprint();
    file.check(0, file.tokens(), std::int64_t{1} << 31);
    file.check(file.tokens() / 2, file.tokens() - file.tokens() / 2, 100);
}

}  // namespace

void megatron_index(std::string_view input) {
    static const ScratchFolder folder;
    std::size_t tokens = 0;
    for (std::size_t i = 0; i < std::min<std::size_t>(2, input.size()); ++i)
        tokens |= std::size_t{static_cast<unsigned char>(input[i])} << 8 * i;
    folder.write("d.bin", std::string(tokens, '\x01'));
    folder.write("d.idx", input.substr(std::min<std::size_t>(2, input.size())));
    read_everything(*data::open_token_file(folder.path() / "d"));
}

void token_file(std::string_view input) {
    static const ScratchFolder folder;
    static constexpr std::array formats = {"auto", "llmc", "raw16", "raw32", "jsonl", "text", "auto"};
    const std::size_t format = input.empty() ? 0 : static_cast<unsigned char>(input[0]) % formats.size();
    const std::string path =
        folder.write(format == 6 ? "d.jsonl" : "d.bin", input.substr(std::min<std::size_t>(1, input.size())));
    read_everything(*data::open_token_file(path, formats[format]));
}

}  // namespace escalier::fuzz
