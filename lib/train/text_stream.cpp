#include "train/text_stream.h"

#include <algorithm>
#include <utility>

namespace escalier::train {

namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr std::size_t longest_character = 4;              // bytes

unsigned char byte_at(std::string_view text, std::size_t at) {
    return static_cast<unsigned char>(text[at]);
}

struct Lead {
    std::size_t length = 0;                   // of the character; 0: none begins with this byte
    unsigned char least = 0x80, most = 0xBF;  // of its second byte: no overlong forms, no surrogates
};

Lead lead_of(unsigned char byte) {
    if (byte < 0x80) return {1};
    if (byte >= 0xC2 && byte <= 0xDF) return {2};
    if (byte == 0xE0) return {3, 0xA0, 0xBF};
    if (byte == 0xED) return {3, 0x80, 0x9F};
    if (byte >= 0xE1 && byte <= 0xEF) return {3};
    if (byte == 0xF0) return {4, 0x90, 0xBF};
    if (byte >= 0xF1 && byte <= 0xF3) return {4};
    if (byte == 0xF4) return {4, 0x80, 0x8F};
    return {};
}

// How many bytes from the front belong together as the (beginning of a) character; 0 where none begins.
std::size_t well_formed(std::string_view text, const Lead& lead) {
    if (lead.length == 0) return 0;
    std::size_t at = 1;
    while (at < lead.length && at < text.size()) {
        const unsigned char byte = byte_at(text, at);
        if (byte < (at == 1 ? lead.least : 0x80) || byte > (at == 1 ? lead.most : 0xBF)) break;
        ++at;
    }
    return at;
}

}  // namespace

std::string Utf8Stream::add(std::string_view bytes) {
    pending_ += bytes;
    std::string out;
    std::string_view rest = pending_;
    while (!rest.empty()) {
        const Lead lead = lead_of(byte_at(rest, 0));
        const std::size_t found = well_formed(rest, lead);
        if (found == lead.length && found > 0) {
            out += rest.substr(0, found);
        } else if (found == rest.size()) {
            break;  // more may come
        } else {
            out += replacement;
        }
        rest.remove_prefix(std::max<std::size_t>(found, 1));
    }
    pending_ = std::string(rest);
    return out;
}

std::string Utf8Stream::finish() {
    return std::exchange(pending_, {}).empty() ? std::string() : std::string(replacement);
}

std::string TextStream::decoded(std::span<const std::int32_t> ids) const {
    return tokenizer_.decode(ids.subspan(context_));
}

// What `text` has between what is out and its first `certain` bytes.
std::string TextStream::beyond(std::string_view text, std::size_t certain) {
    if (certain <= shown_) return "";
    return characters_.add(text.substr(std::exchange(shown_, certain), certain - shown_));
}

void TextStream::move_context(std::span<const std::int32_t> ids) {
    constexpr std::size_t kept = 8;
    context_ = ids.size() - std::min(ids.size(), kept);
    shown_ = decoded(ids).size();
}

std::string TextStream::begin(std::span<const std::int32_t> ids, std::string_view prompt) {
    move_context(ids);
    return characters_.add(prompt);
}

std::string TextStream::add(std::span<const std::int32_t> ids) {
    constexpr std::size_t long_context = 32;
    const std::string text = decoded(ids);
    // A tokenizer that decodes to characters shows bytes that are none yet as one U+FFFD each; the last ones
    // may be the beginning of one.
    std::string_view certain = text;
    for (std::size_t i = 1; i < longest_character && certain.ends_with(replacement); ++i)
        certain.remove_suffix(replacement.size());
    std::string out = beyond(text, certain.size());
    if (certain.size() == text.size() && ids.size() - context_ > long_context) move_context(ids);
    return out;
}

std::string TextStream::finish(std::span<const std::int32_t> ids) {
    const std::string text = decoded(ids);
    std::string out = beyond(text, text.size());
    return out + characters_.finish();
}

}  // namespace escalier::train
