// Every input of the corpora through its reader: seeds, and what the fuzzers once found.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "targets.h"

namespace escalier::fuzz {
namespace {

std::filesystem::path folder_of(const Target& target) {
    return std::filesystem::path(ESCALIER_FUZZ_CORPUS) / target.name;
}

class Replay : public ::testing::TestWithParam<Target> {};

TEST_P(Replay, ReadsOrRefuses) {
    int accepted = 0, refused = 0;
    std::set<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder_of(GetParam())))
        files.insert(entry.path());
    for (const auto& path : files) {
        SCOPED_TRACE(path);
        std::ifstream file(path, std::ios::binary);
        const std::string input(std::istreambuf_iterator<char>(file), {});
        bool taken = false;
        ASSERT_NO_THROW(taken = accepts(GetParam(), input));
        ++(taken ? accepted : refused);
    }
    // A corpus of which the reader takes nothing, or everything, leads nowhere.
    EXPECT_GT(accepted, 0);
    EXPECT_GT(refused, 0);
}

INSTANTIATE_TEST_SUITE_P(Corpus, Replay, ::testing::ValuesIn(targets),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Corpora, EachHasItsReader) {
    std::set<std::string> folders, names;
    for (const auto& entry : std::filesystem::directory_iterator(ESCALIER_FUZZ_CORPUS))
        folders.insert(entry.path().filename());
    for (const Target& target : targets) names.emplace(target.name);
    EXPECT_EQ(folders, names);
}

}  // namespace
}  // namespace escalier::fuzz
