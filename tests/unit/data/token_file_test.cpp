#include "data/token_file.h"

#include <sys/stat.h>

#include "fixtures.h"

namespace escalier::data {
namespace {

using Ids = std::vector<std::int32_t>;

class TokenFileTest : public DataTest {
 protected:
    template <class T>
    std::string llmc(const std::string& name, std::int32_t magic, std::int32_t version, std::int32_t count,
                     const std::vector<T>& ids) {
        std::vector<std::int32_t> words(256, 0);
        words[0] = magic;
        words[1] = version;
        words[2] = count;
        return write_bytes(name, bytes_of(words) + bytes_of(ids));
    }
    std::string refused(ExitCode code, const std::string& file, const std::string& format) {
        return message_of(code, [&] { open_token_file(file, format); });
    }
};

TEST_F(TokenFileTest, ReadsTheGoldenMegatronFile) {
    const std::string hex =
        "4d4d494449445800000100000000000000080300000000000000040000000000000004000000030000000600000000000000"
        "0000000008000000000000000e00000000000000000000000000000001000000000000000200000000000000030000000000"
        "0000";
    std::string index;
    for (std::size_t i = 0; i < hex.size(); i += 2)
        index.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    ASSERT_EQ(index.size(), 102u);
    write_bytes("golden.idx", index);
    write_ids("golden.bin", std::vector<std::uint16_t>{1, 2, 3, 0, 4, 5, 0, 6, 7, 8, 9, 10, 0});
    for (const char* name : {"golden", "golden.bin", "golden.idx"})
        for (const char* format : {"auto", "megatron"}) {
            const auto file = open_token_file(path(name), format);
            EXPECT_EQ(file->format(), FileFormat::megatron);
            EXPECT_EQ(file->type(), TokenType::u16);
            ASSERT_EQ(file->documents(), 3);
            EXPECT_EQ(file->document_begin(1), 4);
            EXPECT_EQ(file->document_begin(3), 13);
            EXPECT_EQ(read_all(*file), (Ids{1, 2, 3, 0, 4, 5, 0, 6, 7, 8, 9, 10, 0}));
        }
}

TEST_F(TokenFileTest, ReadsEveryMegatronIdType) {
    const auto expect = [&](const std::string& prefix, TokenType type) {
        const auto file = open_token_file(prefix);
        EXPECT_EQ(file->type(), type);
        EXPECT_EQ(read_all(*file), (Ids{7, 100, 9}));
    };
    expect(write_megatron<std::uint8_t>("u8", {{7, 100}, {9}}, 1), TokenType::u8);
    expect(write_megatron<std::int8_t>("i8", {{7, 100}, {9}}, 2), TokenType::i8);
    expect(write_megatron<std::int16_t>("i16", {{7, 100}, {9}}, 3), TokenType::i16);
    expect(write_megatron<std::int32_t>("i32", {{7, 100}, {9}}, 4), TokenType::i32);
    expect(write_megatron<std::int64_t>("i64", {{7, 100}, {9}}, 5), TokenType::i64);
    expect(write_megatron<std::uint16_t>("u16", {{7, 100}, {9}}, 8), TokenType::u16);
    for (int code : {0, 6, 7, 9}) {
        write_megatron<std::int32_t>("other", {{7, 100}, {9}}, code);
        EXPECT_CONTAINS(refused(ExitCode::data_corrupt, path("other"), "auto"),
                        "dtype code " + std::to_string(code));
    }
}

// Sequences that are stored in another order than they are listed, with a gap, and an empty one.
TEST_F(TokenFileTest, FollowsPointersOfScatteredSequences) {
    write_ids("scattered.bin", std::vector<std::uint16_t>{9, 9, 5, 6, 7, 99, 1, 2});
    write_bytes("scattered.idx", header(8, 4, 5) + bytes_of(std::vector<std::int32_t>{2, 0, 3, 2}) +
                                     bytes_of(std::vector<std::int64_t>{12, 0, 4, 0}) +
                                     bytes_of(std::vector<std::int64_t>{0, 1, 2, 3, 4}));
    const auto file = open_token_file(path("scattered"));
    EXPECT_EQ(read_all(*file), (Ids{1, 2, 5, 6, 7, 9, 9}));
    EXPECT_EQ(file->document_begin(2), 2);
    for (std::int64_t begin = 0; begin < 7; ++begin)
        for (std::int64_t count = 0; count <= 7 - begin; ++count) {
            Ids part(static_cast<std::size_t>(count));
            file->read(begin, count, 100, part.data());
            const Ids all = {1, 2, 5, 6, 7, 9, 9};
            EXPECT_EQ(part, Ids(all.begin() + begin, all.begin() + begin + count));
        }
    // The position is the one in the .bin, where a user would look.
    const std::string message = message_of(ExitCode::data_corrupt, [&] { file->check(0, 7, 7); });
    EXPECT_CONTAINS(message, "position 4 has id 7");
}

TEST_F(TokenFileTest, RefusesADamagedMegatronIndex) {
    const std::string good = [&] {
        write_megatron<std::uint16_t>("m", {{1, 2, 3}, {4, 5}}, 8);
        std::ifstream in(path("m.idx"), std::ios::binary);
        return std::string(std::istreambuf_iterator<char>(in), {});
    }();
    const auto damaged = [&](std::size_t at, const std::string& bytes) {
        std::string index = good;
        index.replace(at, bytes.size(), bytes);
        write_bytes("m.idx", index);
        return refused(ExitCode::data_corrupt, path("m"), "auto");
    };
    const auto i32 = [](std::int32_t value) { return bytes_of(std::vector{value}); };
    const auto i64 = [](std::int64_t value) { return bytes_of(std::vector{value}); };
    EXPECT_CONTAINS(damaged(0, "X"), "MMIDIDX");
    EXPECT_CONTAINS(damaged(9, i64(2)), "version 2");
    EXPECT_CONTAINS(damaged(18, i64(3)), "truncated or damaged");
    EXPECT_CONTAINS(damaged(18, i64(-1)), "truncated or damaged");
    EXPECT_CONTAINS(damaged(18, i64(std::int64_t{1} << 62)), "truncated or damaged");
    EXPECT_CONTAINS(damaged(26, i64(std::int64_t{1} << 61)), "truncated or damaged");
    EXPECT_CONTAINS(damaged(34, i32(-3)), "sequence 0 has -3 tokens");
    EXPECT_CONTAINS(damaged(34, i32(4)), "its index counts 6 tokens");
    EXPECT_CONTAINS(damaged(38, i32(3)), "sequence 1 has 3 tokens at byte 6");
    EXPECT_CONTAINS(damaged(50, i64(-2)), "at byte -2");
    EXPECT_CONTAINS(damaged(50, i64(INT64_MAX)), "at byte 9223372036854775807");
    EXPECT_CONTAINS(damaged(58, i64(1)), "document end 0 is 1");
    EXPECT_CONTAINS(damaged(66, i64(3)), "document end 1 is 3");
    EXPECT_CONTAINS(damaged(74, i64(0)), "document end 2 is 0");
    EXPECT_CONTAINS(damaged(74, i64(1)), "last document ends at sequence 1 of 2");
    for (std::size_t size = 0; size < good.size(); ++size) {
        write_bytes("m.idx", good.substr(0, size));
        EXPECT_CONTAINS(refused(ExitCode::data_corrupt, path("m"), "megatron"), path("m.idx"));
    }
    write_bytes("m.idx", good + "\1\1");  // the modes of multimodal files
    EXPECT_EQ(open_token_file(path("m"))->tokens(), 5);
    write_ids("m.bin", std::vector<std::uint16_t>{1, 2, 3, 4});
    EXPECT_CONTAINS(refused(ExitCode::data_corrupt, path("m"), "auto"), "does not belong together");
    write_ids("m.bin", std::vector<std::uint16_t>{1, 2, 3, 4, 5, 6});
    EXPECT_CONTAINS(refused(ExitCode::data_corrupt, path("m"), "auto"),
                    "has 12 bytes, but its index counts 5 tokens");
    std::filesystem::remove(path("m.bin"));
    EXPECT_CONTAINS(refused(ExitCode::input_missing, path("m"), "auto"), path("m.bin"));
}

TEST_F(TokenFileTest, ReadsLlmcFiles) {
    const auto gpt2 =
        open_token_file(llmc("gpt2.bin", 20240520, 1, 3, std::vector<std::uint16_t>{50256, 1, 65535}));
    EXPECT_EQ(gpt2->format(), FileFormat::llmc);
    EXPECT_EQ(read_all(*gpt2), (Ids{50256, 1, 65535}));
    const auto llama =
        open_token_file(llmc("llama.bin", 20240801, 7, 2, std::vector<std::uint32_t>{128000, 65540}));
    EXPECT_EQ(read_all(*llama, 128256), (Ids{128000, 65540}));
    EXPECT_EQ(llama->documents(), 0);
}

TEST_F(TokenFileTest, RefusesOtherAndDamagedLlmcFiles) {
    const std::vector<std::uint16_t> ids = {1, 2, 3};
    const auto message = [&](std::int32_t magic, std::int32_t version, std::int32_t count) {
        return refused(ExitCode::data_corrupt, llmc("x.bin", magic, version, count, ids), "llmc");
    };
    EXPECT_CONTAINS(message(20240522, 1, 3), "evaluation");
    EXPECT_CONTAINS(message(20240326, 3, 3), "weights");
    EXPECT_CONTAINS(message(20240328, 2, 3), "tokenizer");
    EXPECT_CONTAINS(message(7, 1, 3), "starts with 7");
    EXPECT_CONTAINS(message(20240520, 2, 3), "version 2");
    EXPECT_CONTAINS(message(20240520, 1, 4), "has 1030 bytes, but its header counts 4 tokens");
    EXPECT_CONTAINS(message(20240520, 1, 2), "truncated or damaged");
    EXPECT_CONTAINS(message(20240520, 1, -1), "counts -1 tokens");
    EXPECT_CONTAINS(refused(ExitCode::data_corrupt, write_bytes("short.bin", std::string(1023, 'a')), "llmc"),
                    "has 1023 bytes");
    EXPECT_CONTAINS(refused(ExitCode::data_corrupt, llmc("eval.bin", 20240522, 1, 3, ids), "auto"),
                    "evaluation");
}

TEST_F(TokenFileTest, ReadsRawFilesAndRefusesOddSizes) {
    EXPECT_EQ(read_all(*open_token_file(write_ids("a.bin", std::vector<std::uint16_t>{3, 65535}), "raw16")),
              (Ids{3, 65535}));
    EXPECT_EQ(read_all(*open_token_file(write_ids("b.bin", std::vector<std::uint32_t>{65540}), "raw32")),
              (Ids{65540}));
    EXPECT_EQ(open_token_file(write_bytes("empty.bin", ""), "raw16")->tokens(), 0);
    const std::string odd =
        refused(ExitCode::data_corrupt, write_bytes("odd.bin", std::string(33, 'a')), "raw16");
    EXPECT_CONTAINS(odd, "has 33 bytes, not a multiple of the 2 bytes");
    EXPECT_CONTAINS(refused(ExitCode::data_corrupt, write_bytes("odd.bin", std::string(34, 'a')), "raw32"),
                    "has 34 bytes, not a multiple of the 4 bytes");
}

// B52: what the bytes themselves betray is refused; the range check catches the rest.
TEST_F(TokenFileTest, RefusesFilesDeclaredAsAnotherWidth) {
    const std::vector<std::uint32_t> wide(100, 1000);
    EXPECT_CONTAINS(refused(ExitCode::data_corrupt, write_ids("wide.bin", wide), "raw16"),
                    "data.format: raw32");
    write_megatron<std::int32_t>("pair", {{65540, 1}}, 4);
    EXPECT_CONTAINS(refused(ExitCode::data_corrupt, path("pair.bin"), "raw16"), "data.format: megatron");
    const auto header = llmc("header.bin", 20240520, 1, 2, std::vector<std::uint16_t>{1, 2});
    EXPECT_CONTAINS(refused(ExitCode::data_corrupt, header, "raw16"), "data.format: llmc");
    const auto narrow =
        open_token_file(write_ids("narrow.bin", std::vector<std::uint16_t>{5, 1, 6, 0}), "raw32");
    EXPECT_CONTAINS(message_of(ExitCode::data_corrupt, [&] { read_all(*narrow, 64); }),
                    "position 0 has id 65541");
    // An all-zero file is poor data, not a wrong width.
    EXPECT_EQ(open_token_file(write_ids("zero.bin", std::vector<std::uint16_t>(100, 0)), "raw16")->tokens(),
              100);
}

// B53.
TEST_F(TokenFileTest, NamesFilePositionIdAndVocabularyOfABadId) {
    auto ids = d0();
    ids[5000] = 70;
    const auto name = write_ids("bad.bin", ids);
    const auto file = open_token_file(name, "raw16");
    const std::string message =
        message_of(ExitCode::data_corrupt, [&] { file->check(0, file->tokens(), 64); });
    EXPECT_CONTAINS(message, name + ": token at position 5000 has id 70, outside the vocabulary of 64");
    file->check(0, 5000, 64);
    file->check(5001, file->tokens() - 5001, 64);
}

TEST_F(TokenFileTest, RefusesNegativeAndHugeIds) {
    const auto negative = open_token_file(write_megatron<std::int32_t>("negative", {{1, -1, 2}}, 4));
    EXPECT_CONTAINS(message_of(ExitCode::data_corrupt, [&] { read_all(*negative); }), "position 1 has id -1");
    const auto huge =
        open_token_file(write_megatron<std::int64_t>("huge", {{1, (std::int64_t{1} << 32) + 1}}, 5));
    EXPECT_CONTAINS(message_of(ExitCode::data_corrupt, [&] { read_all(*huge); }),
                    "position 1 has id 4294967297");
    const auto top = open_token_file(write_ids("top.bin", std::vector<std::uint32_t>{4294967295u}), "raw32");
    EXPECT_CONTAINS(message_of(ExitCode::data_corrupt, [&] { read_all(*top); }), "id 4294967295");
}

// A sparse file: token 2^31 + 5 lies at byte 2^33 + 20.
TEST_F(TokenFileTest, OffsetsHave64Bits) {
    const std::int64_t place = (std::int64_t{1} << 31) + 5;
    {
        std::ofstream out(path("large.bin"), std::ios::binary);
        out.seekp(place * 4);
        out << bytes_of(std::vector<std::uint32_t>{42, 43, 44});
    }
    const auto file = open_token_file(path("large.bin"), "raw32");
    EXPECT_EQ(file->tokens(), place + 3);
    Ids ids(3);
    file->read(place, 3, 64, ids.data());
    EXPECT_EQ(ids, (Ids{42, 43, 44}));
    EXPECT_CONTAINS(message_of(ExitCode::data_corrupt, [&] { file->check(place - 9, 12, 44); }),
                    "position " + std::to_string(place + 2) + " has id 44");
    std::filesystem::remove(path("large.bin"));
}

TEST_F(TokenFileTest, TextIsItsBytesAndAnEndOfDocument) {
    const auto file = open_token_file(write_bytes("a.txt", "H\xc3\xa9!"));
    EXPECT_EQ(file->format(), FileFormat::text);
    EXPECT_EQ(read_all(*file, 257), (Ids{72, 0xc3, 0xa9, 33, 256}));
    for (std::int64_t begin = 0; begin < 5; ++begin)
        for (std::int64_t count = 0; count <= 5 - begin; ++count) {
            Ids part(static_cast<std::size_t>(count), -7);
            file->read(begin, count, 257, part.data());
            for (std::int64_t i = 0; i < count; ++i)
                EXPECT_EQ(part[static_cast<std::size_t>(i)], (Ids{72, 0xc3, 0xa9, 33, 256})[begin + i]);
        }
    EXPECT_CONTAINS(message_of(ExitCode::data_corrupt, [&] { read_all(*file, 256); }),
                    "position 4 has id 256");
    EXPECT_EQ(open_token_file(write_bytes("empty.txt", ""))->tokens(), 0);
}

TEST_F(TokenFileTest, JsonlIsItsDocuments) {
    const auto file = open_token_file(write_bytes(
        "a.jsonl",
        "{\"text\": \"ab\", \"id\": 1}\r\n\n{\"id\": 2, \"text\": \"\"}\n{\"text\": \"\\u00e9\"}"));
    EXPECT_EQ(file->format(), FileFormat::jsonl);
    ASSERT_EQ(file->documents(), 2);
    EXPECT_EQ(file->document_begin(1), 3);
    EXPECT_EQ(read_all(*file), (Ids{97, 98, 256, 0xc3, 0xa9, 256}));
}

TEST_F(TokenFileTest, BadJsonlLinesAreNamed) {
    const auto message = [&](const std::string& line) {
        return refused(ExitCode::data_corrupt, write_bytes("bad.jsonl", "{\"text\": \"a\"}\n" + line + "\n"),
                       "auto");
    };
    for (const char* line :
         {"{\"text\": ", "[1]", "{\"body\": \"x\"}", "{\"text\": 3}", "\"x\"", "{\"text\": \"\xff\"}"})
        EXPECT_CONTAINS(message(line), path("bad.jsonl") + ":2: ");
    EXPECT_CONTAINS(message("{\"body\": \"x\"}"), "no key \"text\"");
    EXPECT_CONTAINS(message("{\"text\": \"x\", \"te\\u0078t\": \"x\"}"),
                    path("bad.jsonl") + ":2: has the key \"text\" 2 times");
}

// Only the key of the text itself has to be alone.
TEST_F(TokenFileTest, JsonlMayRepeatOtherKeysAndHoldTheKeyDeeper) {
    const auto file = open_token_file(write_bytes(
        "a.jsonl", "{\"n\": 1, \"n\": {\"text\": \"x\"}, \"text\": \"ab\", \"m\": [{\"text\": 1}]}\n"));
    EXPECT_EQ(read_all(*file), (Ids{97, 98, 256}));
}

TEST_F(TokenFileTest, TextWithAnotherTokenizerIsRefusedWithTheAdviceToPack) {
    const auto file = write_bytes("a.txt", "text");
    EXPECT_CONTAINS(message_of(ExitCode::usage, [&] { open_token_file(file, "auto", "sp:m.model"); }),
                    "escalier data pack --tokenizer sp:m.model");
}

TEST_F(TokenFileTest, AbsentAndUnknownFilesAreRefused) {
    EXPECT_CONTAINS(refused(ExitCode::input_missing, path("absent"), "auto"), path("absent") + ".idx");
    for (const char* format : {"megatron", "llmc", "raw16", "raw32", "text", "jsonl"})
        EXPECT_CONTAINS(refused(ExitCode::input_missing, path("absent"), format), path("absent"));
    std::filesystem::create_directory(path("folder"));
    EXPECT_CONTAINS(refused(ExitCode::input_missing, path("folder"), "auto"), "folder");
    EXPECT_CONTAINS(refused(ExitCode::input_missing, path("folder"), "raw16"), "folder");
    ASSERT_EQ(::mkfifo(path("pipe.txt").c_str(), 0600), 0);  // without a writer: must not wait for one
    for (const char* format : {"auto", "llmc", "raw16", "raw32", "text", "jsonl"})
        EXPECT_CONTAINS(refused(ExitCode::input_missing, path("pipe.txt"), format), "pipe or device");
    EXPECT_CONTAINS(refused(ExitCode::usage, write_bytes("a.dat", "abcd"), "auto"), "set data.format");
    EXPECT_CONTAINS(refused(ExitCode::usage, path("a.dat"), "raw"), "data.format: raw is not known");
    EXPECT_CONTAINS(refused(ExitCode::data_corrupt, write_bytes("a.jsonl.gz", "\x1f\x8b\x08"), "auto"),
                    "gunzip");
}

TEST_F(TokenFileTest, FingerprintDependsOnContentsAlone) {
    const auto ids = d0();
    auto other = ids;
    other.back() ^= 1;
    const auto print = [&](const std::string& file) { return open_token_file(file, "raw16")->fingerprint(); };
    const auto first = print(write_ids("a.bin", ids));
    EXPECT_EQ(print(write_ids("b.bin", ids)), first);
    EXPECT_NE(print(write_ids("c.bin", other)), first);
    EXPECT_NE(print(write_bytes("d.bin", bytes_of(ids) + std::string(2, '\0'))), first);
    const auto one = open_token_file(write_megatron<std::uint16_t>("one", {{1, 2, 3}}, 8))->fingerprint();
    EXPECT_NE(open_token_file(write_megatron<std::uint16_t>("two", {{1, 2}, {3}}, 8))->fingerprint(), one);
}

}  // namespace
}  // namespace escalier::data
