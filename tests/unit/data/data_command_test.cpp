#include "../../../apps/escalier/data_command.h"

#include <CLI/CLI.hpp>
#include <fstream>

#include "fixtures.h"

namespace escalier::data {
namespace {

class DataCommandTest : public DataTest {
 protected:
    // What `escalier ARGUMENTS…` prints; the exit code goes to `code`.
    std::string run(std::vector<std::string> arguments) {
        CLI::App app;
        std::function<int()> action;
        apps::add_data_command(app, action);
        std::reverse(arguments.begin(), arguments.end());
        app.parse(arguments);
        ::testing::internal::CaptureStdout();
        try {
            code_ = action();
        } catch (...) {
            ::testing::internal::GetCapturedStdout();
            throw;
        }
        return ::testing::internal::GetCapturedStdout();
    }

    int code_ = -1;
};

TEST_F(DataCommandTest, PacksAndDescribesText) {
    const auto text = write_bytes("a.txt", "first\n\nsecond\n");
    const std::string packed =
        run({"data", "pack", text, path("out"), "--tokenizer", "byte", "--split-blank-lines"});
    EXPECT_EQ(code_, 0);
    EXPECT_CONTAINS(packed, "2 documents, 15 tokens of type u16 from 13 bytes of text");
    EXPECT_CONTAINS(packed, "at least 257");
    const std::string info = run({"data", "info", path("out"), "--seq-len", "4"});
    EXPECT_CONTAINS(info, "format     megatron\ntype       u16\ntokens     15\ndocuments  2\n");
    EXPECT_CONTAINS(info, "every document ends with id 256");
    EXPECT_CONTAINS(info, "ids        10 to 256 (model.vocab_size at least 257)");
    EXPECT_CONTAINS(info, "samples    3 of 4 tokens");
}

TEST_F(DataCommandTest, TakesSeveralInputsAKeyAndAModel) {
    const auto one = write_bytes("a.jsonl", "{\"body\": \"The last stage waits.\"}\n");
    const auto two = write_bytes("b.txt", "The last stage waits.");
    run({"data", "pack", "--key", "body", "--no-eod", "--tokenizer",
         "sp:" ESCALIER_GOLDEN "/tiny_sentencepiece.model", one, two, path("out")});
    EXPECT_EQ(open_token_file(path("out"))->tokens(), 20);
    EXPECT_CONTAINS(run({"data", "info", path("out")}), "every document ends with id 325");
}

TEST_F(DataCommandTest, DescribesOtherFormats) {
    write_ids("d0.bin", d0());
    const std::string info = run({"data", "info", path("d0.bin"), "--format", "raw16", "--seq-len", "16"});
    EXPECT_CONTAINS(info, "format     raw16");
    EXPECT_CONTAINS(info, "tokens     8,193");
    EXPECT_CONTAINS(info, "samples    512 of 16 tokens");
    EXPECT_CONTAINS(run({"data", "info", write_bytes("empty.txt", ""), "--seq-len", "16"}),
                    "samples    0 of 16");
}

TEST_F(DataCommandTest, WrongUseIsAParseError) {
    EXPECT_THROW(run({"data"}), CLI::ParseError);
    EXPECT_THROW(run({"data", "pack", "only_one"}), CLI::ParseError);
    EXPECT_THROW(run({"data", "pack", "a", "b", "--format", "llmc"}), CLI::ParseError);
    EXPECT_THROW(run({"data", "info"}), CLI::ParseError);
    EXPECT_THROW(run({"data", "info", "x", "--seq-len", "0"}), CLI::ParseError);
    EXPECT_CONTAINS(message_of(ExitCode::input_missing,
                               [&] {
                                   run({"data", "info", path("absent")});
                               }),
                    "absent");
    EXPECT_CONTAINS(message_of(ExitCode::usage,
                               [&] {
                                   run({"data", "pack", write_bytes("a.txt", "abc"), ""});
                               }),
                    "OUTPREFIX is empty");
    EXPECT_CONTAINS(message_of(ExitCode::usage,
                               [&] {
                                   run({"data", "pack", "a", "b", "--tokenizer", "x"});
                               }),
                    "--tokenizer: x");
}

}  // namespace
}  // namespace escalier::data
