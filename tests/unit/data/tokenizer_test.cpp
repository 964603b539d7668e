#include "data/tokenizer.h"

#include "fixtures.h"

namespace escalier::data {
namespace {

using Ids = std::vector<std::int32_t>;

class TokenizerTest : public DataTest {
 protected:
    static Ids encode(const Tokenizer& tokenizer, const std::string& text) {
        Ids ids;
        tokenizer.encode(text, ids);
        return ids;
    }
};

TEST_F(TokenizerTest, BytesGoThereAndBack) {
    const auto tokenizer = make_tokenizer("byte");
    EXPECT_EQ(tokenizer->vocab_size(), 257);
    EXPECT_EQ(tokenizer->eod(), 256);
    std::string all;
    for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
    const Ids ids = encode(*tokenizer, all);
    for (int i = 0; i < 256; ++i) EXPECT_EQ(ids[static_cast<std::size_t>(i)], i);
    EXPECT_EQ(tokenizer->decode(ids), all);
    EXPECT_EQ(tokenizer->decode(Ids{65, 256, 66}), "AB");
    EXPECT_THROW(tokenizer->decode(Ids{257}), DataError);
    EXPECT_THROW(tokenizer->decode(Ids{-1}), DataError);
}

TEST_F(TokenizerTest, EncodeAppends) {
    const auto tokenizer = make_tokenizer("byte");
    Ids ids = {7};
    tokenizer->encode("a", ids);
    EXPECT_EQ(ids, (Ids{7, 97}));
}

TEST_F(TokenizerTest, SentencePieceGivesTheIdsOfItsOwnTool) {
    const auto tokenizer = make_tokenizer("sp:" ESCALIER_GOLDEN "/tiny_sentencepiece.model");
    EXPECT_EQ(tokenizer->vocab_size(), 340);
    EXPECT_EQ(tokenizer->eod(), 2);
    const std::string plain = "The last stage waits.", foreign = "W\xc3\xb6rter gehen \xe2\x82\xac";
    EXPECT_EQ(encode(*tokenizer, plain), (Ids{305, 259, 266, 274, 310, 297, 263, 307, 314, 325}));
    EXPECT_EQ(encode(*tokenizer, foreign),
              (Ids{308, 337, 198, 185, 315, 310, 270, 308, 282, 259, 313, 308, 229, 133, 175}));
    for (const std::string& text : {plain, foreign}) {
        Ids ids = encode(*tokenizer, text);
        ids.push_back(tokenizer->eod());
        EXPECT_EQ(tokenizer->decode(ids), text);
    }
    EXPECT_THROW(tokenizer->decode(Ids{340}), DataError);
}

TEST_F(TokenizerTest, BadSpecsAndModelsAreRefused) {
    EXPECT_CONTAINS(message_of(ExitCode::usage, [] { make_tokenizer("bpe"); }), "data.tokenizer: bpe");
    EXPECT_CONTAINS(message_of(ExitCode::usage, [] { make_tokenizer("sp:"); }), "data.tokenizer: sp:");
    EXPECT_CONTAINS(message_of(ExitCode::input_missing, [&] { make_tokenizer("sp:" + path("no.model")); }),
                    "no.model");
    const auto damaged = write_bytes("damaged.model", "this is no model");
    EXPECT_CONTAINS(message_of(ExitCode::data_corrupt, [&] { make_tokenizer("sp:" + damaged); }), damaged);
}

}  // namespace
}  // namespace escalier::data
