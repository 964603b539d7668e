#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/harness/temp_folder.h"

namespace escalier::checkpoint {
namespace {

class SafetensorsTest : public ::testing::Test {
 protected:
    void write_bytes(const std::string& bytes) { test::TempFolder::put(path_, bytes); }
    std::string read_bytes() const { return test::TempFolder::bytes_of(path_); }
    static std::string with_header(const std::string& header, const std::string& data) {
        const std::uint64_t length = header.size();
        return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
    }
    // The message of the refusal; the file's name must be in it.
    std::string refusal() const {
        try {
            SafetensorsReader reader(path_);
        } catch (const DataError& error) {
            const std::string message = error.what();
            EXPECT_EQ(message.find(path_), 0u) << message;
            return message;
        }
        return "accepted";
    }
    void expect_refused(const std::string& bytes, const std::string& reason) {
        write_bytes(bytes);
        EXPECT_NE(refusal().find(reason), std::string::npos) << refusal() << "\nexpected: " << reason;
    }

    const test::TempFolder temporary_;
    const std::string folder_ = temporary_.path();
    const std::string path_ = folder_ + "/w.safetensors";
};

TEST_F(SafetensorsTest, WritesWhatItReads) {
    const std::vector<float> a = {1, 2, 3, 4, 5, 6}, b = {-0.5f};
    SafetensorsWriter writer(path_, {{"b.bias", {1}}, {"a.weight", {2, 3}}, {"c", {0, 4}}},
                             {{"escalier_model", "{\"arch\": \"gpt2\"}"}});
    writer.append(a);
    writer.append(b);
    EXPECT_FALSE(std::filesystem::exists(path_));
    writer.finish();
    EXPECT_FALSE(std::filesystem::exists(path_ + ".tmp"));

    const SafetensorsReader reader(path_);
    EXPECT_EQ(reader.metadata(), (Metadata{{"escalier_model", "{\"arch\": \"gpt2\"}"}, {"format", "pt"}}));
    ASSERT_EQ(reader.tensors().size(), 3u);
    EXPECT_EQ(reader.tensors().at("a.weight").text(), "F32 [2, 3]");
    std::vector<float> out(6);
    reader.read_box("a.weight", {{0, 0}, {2, 3}}, false, out.data());
    EXPECT_EQ(out, a);
    reader.read_box("b.bias", {{0}, {1}}, false, out.data());
    EXPECT_EQ(out[0], -0.5f);
}

TEST_F(SafetensorsTest, AlignsTheDataAndStartsWithTheHeader) {
    for (const std::string name : {"a", "ab", "abc", "abcd", "abcde"}) {
        SafetensorsWriter writer(path_, {{name, {1}}}, {});
        writer.append(std::vector<float>{1.5f});
        writer.finish();
        const std::string bytes = read_bytes();
        std::uint64_t header_bytes = 0;
        std::memcpy(&header_bytes, bytes.data(), 8);
        EXPECT_EQ(header_bytes % 8, 0u);
        EXPECT_EQ(bytes[8], '{');
        EXPECT_EQ(bytes.size(), 8 + header_bytes + 4);
    }
}

TEST_F(SafetensorsTest, ReadsSlicesAndTransposes) {
    std::vector<float> values(12);
    for (int i = 0; i < 12; ++i) values[static_cast<std::size_t>(i)] = static_cast<float>(i);
    SafetensorsWriter writer(path_, {{"w", {3, 4}}}, {});
    writer.append(values);
    writer.finish();
    const SafetensorsReader reader(path_);
    std::vector<float> out(4);
    reader.read_box("w", {{1, 2}, {2, 2}}, false, out.data());
    EXPECT_EQ(out, (std::vector<float>{6, 7, 10, 11}));
    reader.read_box("w", {{2, 1}, {2, 2}}, true, out.data());  // of the [4, 3] matrix
    EXPECT_EQ(out, (std::vector<float>{6, 10, 7, 11}));
}

TEST_F(SafetensorsTest, ReadsHalfPrecisionExactly) {
    // F16: 1, -2, smallest subnormal, largest, infinity, NaN. BF16: 1, -2, pi cut, 2^-126, infinity, NaN.
    const std::uint16_t bits[] = {0x3C00, 0xC000, 0x0001, 0x7BFF, 0x7C00, 0x7E00,
                                  0x3F80, 0xC000, 0x4049, 0x0080, 0x7F80, 0x7FC0};
    write_bytes(with_header(R"({"h":{"dtype":"F16","shape":[6],"data_offsets":[0,12]},)"
                            R"("b":{"dtype":"BF16","shape":[6],"data_offsets":[12,24]}})",
                            std::string(reinterpret_cast<const char*>(bits), sizeof bits)));
    const SafetensorsReader reader(path_);
    std::vector<float> out(6);
    reader.read_box("h", {{0}, {6}}, false, out.data());
    EXPECT_EQ(std::vector<float>(out.begin(), out.begin() + 4), (std::vector<float>{1, -2, 0x1p-24f, 65504}));
    EXPECT_EQ(out[4], INFINITY);
    EXPECT_TRUE(std::isnan(out[5]));
    reader.read_box("b", {{0}, {6}}, false, out.data());
    EXPECT_EQ(std::vector<float>(out.begin(), out.begin() + 4),
              (std::vector<float>{1, -2, 3.140625f, 0x1p-126f}));
    EXPECT_EQ(out[4], INFINITY);
    EXPECT_TRUE(std::isnan(out[5]));
}

TEST_F(SafetensorsTest, RefusesToReadIntegersAsWeights) {
    write_bytes(with_header(R"({"i":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}})", "abcd"));
    const SafetensorsReader reader(path_);
    float out = 0;
    EXPECT_THROW(reader.read_box("i", {{0}, {1}}, false, &out), DataError);
}

TEST_F(SafetensorsTest, RefusesTruncatedFilesAndForeignText) {
    SafetensorsWriter writer(path_, {{"w", {100}}}, {});
    writer.append(std::vector<float>(100, 1.0f));
    writer.finish();
    const std::string whole = read_bytes();
    const std::size_t header_end = whole.size() - 400;

    expect_refused("", "0 bytes, fewer than the 8");
    expect_refused(whole.substr(0, 7), "7 bytes, fewer than the 8");
    expect_refused(whole.substr(0, 8), "but the file has 8 bytes");
    expect_refused(whole.substr(0, 20), "but the file has 20 bytes");
    expect_refused(whole.substr(0, header_end + 200),
                   "tensor 'w' ends at byte 400 of the data, but the file (" +
                       std::to_string(header_end + 200) + " bytes) has only 200 bytes of data");
    expect_refused(whole + "x", "but the file has " + std::to_string(whole.size() + 1));
    expect_refused("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 400\n",
                   "Git LFS pointer");
    const std::uint64_t huge = std::uint64_t{1} << 60;
    expect_refused(std::string(reinterpret_cast<const char*>(&huge), 8) + whole, "1152921504606846976 bytes");
}

TEST_F(SafetensorsTest, RefusesEveryBrokenHeaderByTensorAndFault) {
    const std::string data(8, 'x');
    const std::pair<const char*, const char*> headers[] = {
        {"[]", "not a JSON object"},
        {" {}", "not a JSON object"},
        {"{", "not valid JSON"},
        {"{\"a\xff\":1}", "not valid JSON"},
        {R"({"a":{"shape":[2],"data_offsets":[0,8]}})", "'a' lacks dtype"},
        {R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", "'a' lacks dtype, shape"},
        {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", "'a' lacks"},
        {R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", "unknown dtype 'F33'"},
        {R"({"a":{"dtype":"F4","shape":[16],"data_offsets":[0,8]}})", "unknown dtype 'F4'"},
        {R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", "tensor 'a' is -2, not a count"},
        {R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", "not a count"},
        {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})", "more than 2^64"},
        {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "takes 12 bytes"},
        {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", "data_offsets are [8,0]"},
        {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "begins at byte 4"},
        {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})", "has only 8 bytes of data"},
        {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "but the file has"},
        {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
         "'b' begins at byte 4 of the data, but the tensor before it ends at byte 8 (overlap)"},
        {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
         "(hole)"},
        {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
         "names 'a' twice"},
        {R"({"a":{"dtype":"F32","dtype":"I32","shape":[2],"data_offsets":[0,8]}})", "names 'dtype' twice"},
        {R"({"__metadata__":{"n":1},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
         "'n' is not a string"},
        {R"({"__metadata__":[],"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "not an object"},
    };
    for (const auto& [header, reason] : headers) expect_refused(with_header(header, data), reason);

    // The same where every word is long and full of what moves a terminal's cursor.
    const std::string tail = "\\u001b[2J" + std::string(5000, 'y') + "\"";
    for (const auto& [header, reason] : headers) {
        std::string hostile = header;
        for (const char* word : {"a\"", "b\"", "n\"", "F33\""})
            for (std::size_t at = hostile.find(word); at != std::string::npos; at = hostile.find(word, at)) {
                const std::size_t quote = at + std::string(word).size() - 1;
                hostile.replace(quote, 1, tail);
                at = quote + tail.size();
            }
        write_bytes(with_header(hostile, data));
        const std::string message = refusal();
        EXPECT_LT(message.size(), path_.size() + 500) << header;
        EXPECT_TRUE(std::all_of(message.begin(), message.end(), [](char c) { return c >= ' ' && c <= '~'; }))
            << header << ": " << message;
    }
}

TEST_F(SafetensorsTest, AcceptsScalarsPaddingAndEmptyTensors) {
    write_bytes(with_header(R"({"s":{"dtype":"F64","shape":[],"data_offsets":[0,8]},)"
                            R"("e":{"dtype":"F32","shape":[0,3],"data_offsets":[8,8]}}   )",
                            "12345678"));
    EXPECT_EQ(SafetensorsReader(path_).tensors().size(), 2u);
    write_bytes(with_header("{}", ""));
    EXPECT_TRUE(SafetensorsReader(path_).tensors().empty());
}

TEST_F(SafetensorsTest, NamesAFileThatCannotBeRead) {
    for (const std::string& path : {folder_ + "/absent", folder_}) try {
            SafetensorsReader reader(path);
            ADD_FAILURE() << "accepted";
        } catch (const IoError& error) {
            EXPECT_EQ(error.code(), ExitCode::input_missing);
            EXPECT_EQ(std::string(error.what()).find(path), 0u) << error.what();
        }
}

TEST_F(SafetensorsTest, NamesAFileThatCannotBeWritten) {
    try {
        SafetensorsWriter writer(folder_ + "/absent/w.safetensors", {{"w", {1}}}, {});
        ADD_FAILURE() << "accepted";
    } catch (const IoError& error) {
        EXPECT_EQ(error.code(), ExitCode::write_failed);
        EXPECT_NE(std::string(error.what()).find("No such file or directory"), std::string::npos);
    }
}

TEST_F(SafetensorsTest, AnUnfinishedFileLeavesTheOldOneAlone) {
    write_bytes("old");
    { SafetensorsWriter writer(path_, {{"w", {1}}}, {}); }
    EXPECT_EQ(read_bytes(), "old");
    EXPECT_FALSE(std::filesystem::exists(path_ + ".tmp"));
}

TEST_F(SafetensorsTest, ALinkStaysAndItsFileIsReplaced) {
    std::filesystem::create_directory(folder_ + "/store");
    for (const bool exists : {false, true}) {
        std::filesystem::remove(path_);
        if (exists) std::ofstream(folder_ + "/store/old") << "old";
        const std::string link = exists ? "store/old" : "store/new";
        std::filesystem::create_symlink(link, path_);
        SafetensorsWriter writer(path_, {{"w", {1}}}, {});
        writer.append(std::vector<float>{1.5f});
        EXPECT_TRUE(std::filesystem::exists(folder_ + "/" + link + ".tmp"));
        writer.finish();
        EXPECT_TRUE(std::filesystem::is_symlink(path_));
        EXPECT_EQ(SafetensorsReader(folder_ + "/" + link).tensors().size(), 1u);
        EXPECT_FALSE(std::filesystem::exists(folder_ + "/" + link + ".tmp"));
    }
}

TEST_F(SafetensorsTest, WhatIsNoPlainFileIsNeverReplaced) {
    ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
    for (const std::string& target : {path_, folder_, std::string("/dev/null")}) try {
            SafetensorsWriter writer(target, {{"w", {1}}}, {});
            ADD_FAILURE() << target << " was accepted";
        } catch (const IoError& error) {
            EXPECT_EQ(error.code(), ExitCode::write_failed);
            EXPECT_EQ(std::string(error.what()).find(target + ": "), 0u) << error.what();
        }
    EXPECT_TRUE(std::filesystem::is_fifo(path_));
}

TEST_F(SafetensorsTest, AFullDiskIsAWriteErrorThatNamesFileAndReason) {
    if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
    std::filesystem::create_symlink("/dev/full", path_ + ".tmp");
    try {
        SafetensorsWriter writer(path_, {{"w", {1000}}}, {});
        ADD_FAILURE() << "accepted";
    } catch (const IoError& error) {
        EXPECT_EQ(error.code(), ExitCode::write_failed);
        EXPECT_NE(std::string(error.what()).find("No space left on device"), std::string::npos);
        EXPECT_EQ(std::string(error.what()).find(path_), 0u);
    }
    EXPECT_FALSE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace escalier::checkpoint
