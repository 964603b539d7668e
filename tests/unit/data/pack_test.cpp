#include "data/pack.h"

#include <sys/stat.h>

#include <fstream>

#include "data/megatron_writer.h"
#include "fixtures.h"

namespace escalier::data {
namespace {

using Ids = std::vector<std::int32_t>;

// One id per character: a base plus the byte.
class OffsetTokenizer final : public Tokenizer {
 public:
    OffsetTokenizer(std::int64_t vocab_size, std::int32_t base, std::int32_t eod)
        : vocab_size_(vocab_size), base_(base), eod_(eod) {}
    std::int64_t vocab_size() const override { return vocab_size_; }
    std::int32_t eod() const override { return eod_; }
    void encode(std::string_view text, Ids& ids) const override {
        for (unsigned char byte : text) ids.push_back(base_ + byte);
    }
    std::string decode(std::span<const std::int32_t>) const override { return ""; }

 private:
    std::int64_t vocab_size_;
    std::int32_t base_, eod_;
};

class PackTest : public DataTest {
 protected:
    std::string contents(const std::string& name) const {
        std::ifstream in(path(name), std::ios::binary);
        return std::string(std::istreambuf_iterator<char>(in), {});
    }
    PackResult pack_bytes(const std::vector<std::string>& inputs, const PackOptions& options = {}) const {
        return pack(inputs, path("out"), *make_tokenizer("byte"), options);
    }
    Ids packed() const { return read_all(*open_token_file(path("out"))); }
    std::vector<std::int64_t> begins() const {
        const auto file = open_token_file(path("out"));
        std::vector<std::int64_t> all;
        for (std::int64_t i = 0; i <= file->documents(); ++i) all.push_back(file->document_begin(i));
        return all;
    }
    std::vector<std::string> names() const {
        std::vector<std::string> all;
        for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
            all.push_back(entry.path().filename().string());
        std::sort(all.begin(), all.end());
        return all;
    }
};

TEST_F(PackTest, WritesTheGoldenIndex) {
    MegatronWriter writer(path("golden"), 11);
    for (const Ids& document : {Ids{1, 2, 3, 0}, Ids{4, 5, 0}, Ids{}, Ids{6, 7, 8, 9, 10, 0}}) {
        writer.add(document);
        writer.end_document();
    }
    writer.finish();
    const std::string hex =
        "4d4d494449445800000100000000000000080300000000000000040000000000000004000000030000000600000000000000"
        "0000000008000000000000000e00000000000000000000000000000001000000000000000200000000000000030000000000"
        "0000";
    std::string index;
    for (std::size_t i = 0; i < hex.size(); i += 2)
        index.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    EXPECT_EQ(contents("golden.idx"), index);
    EXPECT_EQ(contents("golden.bin"),
              bytes_of(std::vector<std::uint16_t>{1, 2, 3, 0, 4, 5, 0, 6, 7, 8, 9, 10, 0}));
    EXPECT_EQ(names(), (std::vector<std::string>{"golden.bin", "golden.idx"}));
}

TEST_F(PackTest, PacksEachTextFileAsADocument) {
    const auto result =
        pack_bytes({write_bytes("a.txt", "ab\n"), write_bytes("b.txt", ""), write_bytes("c", "c")});
    EXPECT_EQ(result.documents, 2);
    EXPECT_EQ(result.tokens, 6);
    EXPECT_EQ(result.text_bytes, 4);
    EXPECT_EQ(packed(), (Ids{97, 98, 10, 256, 99, 256}));
    EXPECT_EQ(begins(), (std::vector<std::int64_t>{0, 4, 6}));
}

TEST_F(PackTest, LeavesTheEndOfDocumentOutWhenAsked) {
    pack_bytes({write_bytes("a.txt", "ab"), write_bytes("b.txt", "c")}, {.append_eod = false});
    EXPECT_EQ(packed(), (Ids{97, 98, 99}));
    EXPECT_EQ(begins(), (std::vector<std::int64_t>{0, 2, 3}));
}

TEST_F(PackTest, SplitsAtBlankLines) {
    const auto file = write_bytes("a.txt", "\n\none\ntwo\n \t\r\n\nthree\n\nfour");
    pack_bytes({file}, {.append_eod = true, .split_blank_lines = true});
    EXPECT_EQ(begins(), (std::vector<std::int64_t>{0, 9, 16, 21}));
    const auto text = make_tokenizer("byte")->decode(packed());
    EXPECT_EQ(text, "one\ntwo\nthree\nfour");
}

TEST_F(PackTest, ReadsJsonlUnderAnyKey) {
    const auto file =
        write_bytes("a.jsonl", "{\"body\": \"x\\ny\"}\n\n{\"body\": \"\"}\n{\"body\": \"z\", \"n\": 1}\n");
    PackOptions options;
    options.key = "body";
    EXPECT_EQ(pack_bytes({file}, options).documents, 2);
    EXPECT_EQ(pack_bytes({write_bytes("B.JSONL", "{\"body\": \"x\"}\n")}, options).documents, 1);
    pack_bytes({file}, options);
    EXPECT_EQ(packed(), (Ids{120, 10, 121, 256, 122, 256}));
    EXPECT_CONTAINS(message_of(ExitCode::data_corrupt, [&] { pack_bytes({file}); }),
                    file + ":1: has no key \"text\"");
}

// Text that is read directly and its packed form are the same stream.
TEST_F(PackTest, AgreesWithTextReadDirectly) {
    const auto text = write_bytes("a.txt", "some text\nand more");
    const auto jsonl = write_bytes("b.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
    for (const auto& file : {text, jsonl}) {
        pack_bytes({file});
        EXPECT_EQ(packed(), read_all(*open_token_file(file)));
    }
}

// B52: the width follows the vocabulary and nothing wraps.
TEST_F(PackTest, IdsNeverWrap) {
    const auto file = write_bytes("a.txt", "abc");
    const OffsetTokenizer wide(70000, 65540 - 'a', 0);
    EXPECT_EQ(pack({file}, path("out"), wide, {}).type, TokenType::i32);
    EXPECT_EQ(packed(), (Ids{65540, 65541, 65542, 0}));
    EXPECT_EQ(pack({file}, path("out"), OffsetTokenizer(65499, 0, 1), {}).type, TokenType::u16);
    EXPECT_EQ(pack({file}, path("out"), OffsetTokenizer(65500, 0, 1), {}).type, TokenType::i32);
    const std::string message = message_of(ExitCode::data_corrupt, [&] {
        pack({file}, path("out"), OffsetTokenizer(60000, 65540 - 'a', 0), {});
    });
    EXPECT_CONTAINS(message, "id 65540");
}

TEST_F(PackTest, ALongDocumentBecomesSeveralSequences) {
    PackOptions options;
    options.max_sequence = 4;
    const auto result =
        pack_bytes({write_bytes("a.txt", "0123456789"), write_bytes("b.txt", "abc")}, options);
    EXPECT_EQ(result.documents, 2);
    EXPECT_EQ(begins(), (std::vector<std::int64_t>{0, 4, 8, 11, 15}));
    const std::string index = contents("out.idx");
    EXPECT_EQ(index.substr(index.size() - 24), bytes_of(std::vector<std::int64_t>{0, 3, 4}));
}

// Text in pieces that are cut at line ends, spaces or between characters: nothing is lost or doubled.
TEST_F(PackTest, LargeFilesGoThroughInPieces) {
    const auto repeated = [](const std::string& text) {
        std::string all;
        while (all.size() < 5000) all += text;
        return all;
    };
    const auto model = make_tokenizer("sp:" ESCALIER_GOLDEN "/tiny_sentencepiece.model");
    for (const std::string& text :
         {repeated("a line of text\n"), repeated("word after word "), repeated("\xe2\x82\xac"),
          repeated("\xf0\x9f\x98\x80"), repeated("\x80"), repeated("a")})
        for (const std::size_t piece_bytes : {1, 7, 100, 101, 102, 103, 4999}) {
            PackOptions options;
            options.piece_bytes = piece_bytes;
            const auto file = write_bytes("large.txt", text);
            pack_bytes({file}, options);
            EXPECT_EQ(make_tokenizer("byte")->decode(packed()), text);
            if (piece_bytes < 7 || text[0] == '\x80') continue;
            // A character cut in two would come back as replacement characters. The model drops spaces at
            // cuts.
            pack({file}, path("out"), *model, options);
            std::string wanted = text, found = model->decode(packed());
            std::erase(wanted, ' ');
            std::erase(found, ' ');
            EXPECT_EQ(found, wanted);
        }
}

TEST_F(PackTest, RefusalsLeaveNothingBehind) {
    const auto good = write_bytes("a.txt", "abc");
    const auto before = names();
    EXPECT_CONTAINS(message_of(ExitCode::input_missing,
                               [&] {
                                   pack_bytes({good, path("absent")});
                               }),
                    "absent");
    EXPECT_CONTAINS(message_of(ExitCode::usage, [&] { pack({good}, good, *make_tokenizer("byte"), {}); }),
                    "OUTPREFIX");
    EXPECT_CONTAINS(message_of(ExitCode::write_failed,
                               [&] { pack({good}, path("no/out"), *make_tokenizer("byte"), {}); }),
                    path("no/out.bin"));
    EXPECT_CONTAINS(
        message_of(ExitCode::usage, [&] { pack({good}, path("out"), OffsetTokenizer(300, 0, -1), {}); }),
        "--no-eod");
    EXPECT_EQ(names(), before);
    const auto empty = write_bytes("empty.txt", "");
    EXPECT_CONTAINS(message_of(ExitCode::data_corrupt, [&] { pack_bytes({empty}); }), "nothing to pack");
    for (const auto& [begin, fact] :
         {std::pair("\037\213", "gunzip"), std::pair("\050\265\057\375", "unzstd"),
          std::pair("\3757zXZ", "unxz"), std::pair("PAR1", "JSONL")})
        EXPECT_CONTAINS(message_of(ExitCode::usage,
                                   [&] { pack_bytes({write_bytes("a.txt", std::string(begin) + "rest")}); }),
                        fact);
    const auto wide = write_bytes("wide.txt", std::string("a\0b\0", 4));
    EXPECT_CONTAINS(message_of(ExitCode::data_corrupt, [&] { pack_bytes({wide}); }), "NUL byte at offset 1");
    EXPECT_FALSE(std::filesystem::exists(path("out.bin")));
}

TEST_F(PackTest, AnInputIsNeverReplaced) {
    write_bytes("out.bin", "abc");
    std::filesystem::create_symlink("out.bin", path("link.txt"));
    std::filesystem::create_hard_link(path("out.bin"), path("hard.txt"));
    std::filesystem::create_symlink("a.txt", path("other.idx"));
    const auto text = write_bytes("a.txt", "abc");
    const auto before = names();
    const auto refuse = [&](const std::string& input, const std::string& prefix, const std::string& output) {
        const std::string message =
            message_of(ExitCode::usage, [&] { pack({input}, path(prefix), *make_tokenizer("byte"), {}); });
        EXPECT_CONTAINS(message, path(output) + ": is the same file as the input " + input);
    };
    for (const char* name : {"out.bin", "link.txt", "hard.txt", "./out.bin"})
        refuse(path(name), "out", "out.bin");
    refuse(text, "other", "other.idx");
    EXPECT_CONTAINS(message_of(ExitCode::usage, [&] { pack({text}, "", *make_tokenizer("byte"), {}); }),
                    "OUTPREFIX is empty");
    EXPECT_EQ(names(), before);
    EXPECT_EQ(contents("out.bin"), "abc");
    EXPECT_EQ(contents("a.txt"), "abc");
}

TEST_F(PackTest, LinksStayAndTheirFilesAreReplaced) {
    std::filesystem::create_directory(path("store"));
    for (const char* end : {".bin", ".idx"})
        std::filesystem::create_symlink(std::string("store/real") + end, path(std::string("out") + end));
    for (const char* text : {"first", "second"}) {
        pack_bytes({write_bytes("a.txt", text)});
        EXPECT_TRUE(std::filesystem::is_symlink(path("out.bin")));
        EXPECT_TRUE(std::filesystem::is_symlink(path("out.idx")));
        EXPECT_EQ(make_tokenizer("byte")->decode(read_all(*open_token_file(path("store/real")))), text);
    }
}

TEST_F(PackTest, WhatIsNoPlainFileIsNeverReplaced) {
    const auto text = write_bytes("a.txt", "abc");
    for (const char* end : {".bin", ".idx"}) {
        const auto target = path(std::string("out") + end);
        ASSERT_EQ(::mkfifo(target.c_str(), 0600), 0);
        const auto before = names();
        EXPECT_CONTAINS(message_of(ExitCode::write_failed, [&] { pack_bytes({text}); }), target);
        EXPECT_TRUE(std::filesystem::is_fifo(target));
        EXPECT_EQ(names(), before);
        std::filesystem::remove(target);
    }
}

// A pair that is being read stays whole for its reader when it is packed again.
TEST_F(PackTest, RepackingReplacesThePairWhole) {
    pack_bytes({write_bytes("a.txt", "old text")});
    const auto reader = open_token_file(path("out"));
    pack_bytes({write_bytes("a.txt", "new")});
    EXPECT_EQ(make_tokenizer("byte")->decode(packed()), "new");
    EXPECT_EQ(make_tokenizer("byte")->decode(read_all(*reader)), "old text");
}

}  // namespace
}  // namespace escalier::data
