#include "train/text_stream.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace escalier::train {
namespace {

using Ids = std::vector<std::int32_t>;
const std::string lost = "\xEF\xBF\xBD";

std::string all_of(const std::vector<std::string>& parts) {
    Utf8Stream stream;
    std::string out;
    for (const std::string& part : parts) out += stream.add(part);
    return out + stream.finish();
}

TEST(Utf8Stream, CharactersComeWhole) {
    const std::string text = "a\xC3\xB6\xE2\x82\xAC\xF0\x9F\x98\x80z\x7F";
    const std::size_t complete_at[] = {1, 3, 6, 10, 11, 12};
    Utf8Stream stream;
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        out += stream.add(text.substr(i, 1));
        std::size_t complete = 0;
        for (const std::size_t end : complete_at)
            if (end <= i + 1) complete = end;
        EXPECT_EQ(out, text.substr(0, complete)) << "after byte " << i;
    }
    EXPECT_EQ(stream.finish(), "");
}

// The practice that the Unicode standard recommends (section 3.9, tables 3-8 and 3-11).
TEST(Utf8Stream, WhatIsNoCharacterIsReplacedOncePerLongestBeginning) {
    const std::pair<std::string, std::string> cases[] = {
        {"\x80", lost},
        {"a\xFFz", "a" + lost + "z"},
        {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", lost + lost + lost + lost + lost + lost + lost + lost + "A"},
        {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", lost + lost + lost + lost + lost + lost + lost + lost + "A"},
        {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", lost + lost + lost + lost + lost + "A" + lost + lost + "B"},
        {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", lost + lost + lost + lost + "A"},
        {"\xE2\x82", lost},
        {"\xF0\x9F\x98", lost},
        {"\xC3", lost},
        {"\xC3\xC3\xB6", lost + "\xC3\xB6"},
        {std::string("a\0b", 3), std::string("a\0b", 3)},
    };
    for (const auto& [bytes, expected] : cases) {
        EXPECT_EQ(all_of({bytes}), expected);
        std::vector<std::string> single;
        for (const char byte : bytes) single.emplace_back(1, byte);
        EXPECT_EQ(all_of(single), expected);
    }
}

// Every id is handed over as it comes; what is printed is never taken back.
std::string streamed(const data::Tokenizer& tokenizer, const Ids& ids, std::size_t prompt,
                     std::string* certain = nullptr) {
    TextStream stream(tokenizer);
    Ids text(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(prompt));
    std::string out = stream.begin(text, tokenizer.decode(text));
    for (std::size_t i = prompt; i < ids.size(); ++i) {
        text.push_back(ids[i]);
        out += stream.add(text);
        EXPECT_EQ(all_of({out}), out) << "half a character after id " << i;
    }
    if (certain) *certain = out;
    return out + stream.finish(text);
}

TEST(TextStream, BytesBecomeCharacters) {
    const auto tokenizer = data::make_tokenizer("byte");
    Ids ids;
    const std::string text = "W\xC3\xB6rter \xE2\x82\xAC \xF0\x9F\x98\x80!";
    tokenizer->encode(text, ids);
    EXPECT_EQ(streamed(*tokenizer, ids, 1), text);
    ids.resize(3);  // behind the o with dots
    EXPECT_EQ(streamed(*tokenizer, ids, 1), "W\xC3\xB6");
    ids.resize(2);
    std::string certain;
    EXPECT_EQ(streamed(*tokenizer, ids, 1, &certain), "W" + lost);
    EXPECT_EQ(certain, "W");
}

TEST(TextStream, PiecesKeepTheirSpacesAndBytesWaitForTheirCharacter) {
    const auto tokenizer = data::make_tokenizer("sp:" GOLDEN_DIR "/data/tiny_sentencepiece.model");
    for (const std::string text : {"The last stage waits.", "W\xC3\xB6rter gehen \xE2\x82\xAC und mehr",
                                   "\xF0\x9F\x98\x80\xE2\x82\xAC"}) {
        Ids ids;
        tokenizer->encode(text, ids);
        for (std::size_t prompt = 1; prompt <= ids.size(); ++prompt) {
            const std::string begun =
                tokenizer->decode(Ids(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(prompt)));
            if (begun.find(lost) != std::string::npos) continue;  // no prompt that a text can give
            EXPECT_EQ(streamed(*tokenizer, ids, prompt), text) << "prompt of " << prompt;
        }
        // From the end of a document, which has no text.
        ids.insert(ids.begin(), tokenizer->eod());
        EXPECT_EQ(streamed(*tokenizer, ids, 1), text);
    }
}

// Long enough that decoding begins anew many times.
TEST(TextStream, ALongTextIsThatOfOneDecoding) {
    const auto tokenizer = data::make_tokenizer("sp:" GOLDEN_DIR "/data/tiny_sentencepiece.model");
    std::string text;
    for (int i = 0; i < 40; ++i)
        text += "The last stage waits, W\xC3\xB6rter \xE2\x82\xAC\xF0\x9F\x98\x80 gehen. ";
    text.pop_back();
    Ids ids;
    tokenizer->encode(text, ids);
    EXPECT_EQ(streamed(*tokenizer, ids, 3), text);
}

TEST(TextStream, BytesThatNeverBecomeACharacterAreShownInTime) {
    const auto tokenizer = data::make_tokenizer("sp:" GOLDEN_DIR "/data/tiny_sentencepiece.model");
    Ids euro;
    tokenizer->encode("\xE2\x82\xAC", euro);
    const std::int32_t begins = euro[euro.size() - 3];  // the byte E2
    Ids ids;
    tokenizer->encode("Ab", ids);
    const std::size_t prompt = ids.size();
    for (int i = 0; i < 6; ++i) ids.push_back(begins);
    std::string certain;
    const std::string text = streamed(*tokenizer, ids, prompt, &certain);
    EXPECT_EQ(text, tokenizer->decode(ids));
    EXPECT_GE(certain.size(), std::string("Ab").size() + 3 * lost.size());
}

}  // namespace
}  // namespace escalier::train
