// Small token files, written into a folder of their own that goes with the test.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "data/sampler.h"
#include "tests/harness/temp_folder.h"

namespace escalier::data {

class DataTest : public ::testing::Test {
 protected:
    std::string path(const std::string& name) const { return folder_ / name; }
    std::string write_bytes(const std::string& name, const std::string& bytes) const {
        std::ofstream(path(name), std::ios::binary) << bytes;
        return path(name);
    }
    template <class T>
    static std::string bytes_of(const std::vector<T>& values) {
        return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    }
    template <class T>
    std::string write_ids(const std::string& name, const std::vector<T>& ids) const {
        return write_bytes(name, bytes_of(ids));
    }
    // PREFIX.bin and PREFIX.idx from documents, one sequence each; T gives the dtype.
    template <class T>
    std::string write_megatron(const std::string& prefix, const std::vector<std::vector<T>>& documents,
                               int dtype) const {
        std::vector<T> ids;
        std::vector<std::int32_t> lengths;
        std::vector<std::int64_t> pointers, ends = {0};
        for (const auto& document : documents) {
            pointers.push_back(static_cast<std::int64_t>(ids.size() * sizeof(T)));
            lengths.push_back(static_cast<std::int32_t>(document.size()));
            ids.insert(ids.end(), document.begin(), document.end());
            ends.push_back(static_cast<std::int64_t>(lengths.size()));
        }
        write_ids(prefix + ".bin", ids);
        write_bytes(prefix + ".idx", header(dtype, lengths.size(), ends.size()) + bytes_of(lengths) +
                                         bytes_of(pointers) + bytes_of(ends));
        return path(prefix);
    }
    static std::string header(int dtype, std::uint64_t sequences, std::uint64_t ends) {
        std::string text("MMIDIDX\0\0", 9);
        text += bytes_of(std::vector<std::uint64_t>{1});
        text.push_back(static_cast<char>(dtype));
        return text + bytes_of(std::vector<std::uint64_t>{sequences, ends});
    }
    // D0 of expected-behaviour.md: 8,193 tokens, 512 samples of 16.
    static std::vector<std::uint16_t> d0() {
        std::vector<std::uint16_t> ids;
        for (std::uint64_t i = 0; i < 8193; ++i)
            ids.push_back(static_cast<std::uint16_t>((i * i + 7 * i) % 61));
        return ids;
    }
    // D1: 161 tokens, 10 samples of 16; sample k is filled with token k.
    static std::vector<std::uint16_t> d1() {
        std::vector<std::uint16_t> ids;
        for (int i = 0; i < 161; ++i) ids.push_back(static_cast<std::uint16_t>(i / 16));
        return ids;
    }
    static config::DataConfig one_file(const std::string& path, const std::string& format = "auto",
                                       const std::string& split = "100,0,0") {
        config::DataConfig data;
        data.train = {{path, 1.0}};
        data.format = format;
        data.split = split;
        return data;
    }
    static std::shared_ptr<const Corpus> corpus(const config::DataConfig& data,
                                                std::int64_t vocab_size = 64) {
        return std::make_shared<const Corpus>(data, vocab_size);
    }
    static std::vector<std::int32_t> read_all(const TokenFile& file, std::int64_t vocab_size = 70000) {
        std::vector<std::int32_t> ids(static_cast<std::size_t>(file.tokens()));
        file.read(0, file.tokens(), vocab_size, ids.data());
        return ids;
    }

    const test::TempFolder folder_;
};

// The message of the Error that `body` throws, checked for its exit code; fails the test when it throws none.
template <class Body>
std::string message_of(ExitCode code, Body&& body) {
    try {
        body();
    } catch (const Error& error) {
        EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
        return error.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return "";
}

#define EXPECT_CONTAINS(text, part) \
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, std::string(part), std::string(text))

}  // namespace escalier::data
