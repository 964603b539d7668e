#include "data/corpus.h"

#include <sys/stat.h>

#include <numeric>
#include <set>
#include <thread>

#include "fixtures.h"

namespace escalier::data {
namespace {

using Ids = std::vector<std::int32_t>;

class CorpusTest : public DataTest {
 protected:
    std::string documents(std::size_t count, std::size_t length) {
        std::vector<std::vector<std::uint16_t>> all;
        for (std::size_t i = 0; i < count; ++i) {
            all.emplace_back(length, static_cast<std::uint16_t>(i % 50));
            all.back().back() = 60;
        }
        return write_megatron<std::uint16_t>("docs", all, 8);
    }
};

TEST_F(CorpusTest, SplitsAreReadAsShares) {
    EXPECT_EQ(parse_split("98,2,0"), (std::array<double, 3>{0.98, 0.02, 0}));
    EXPECT_EQ(parse_split(" 949, 50 ,1"), (std::array<double, 3>{0.949, 0.05, 0.001}));
    EXPECT_EQ(parse_split("1"), (std::array<double, 3>{1, 0, 0}));
    EXPECT_EQ(parse_split("0.5,0.5"), (std::array<double, 3>{0.5, 0.5, 0}));
    for (const char* bad :
         {"", "a", "98,2,0,0", "98,-2", "98,,2", "98;2", "0,0,0", "inf", "nan,1", "98,2,", "1e400"})
        EXPECT_CONTAINS(message_of(ExitCode::usage, [&] { parse_split(bad); }),
                        std::string("data.split: \"") + bad);
}

// round(fraction * count), half to even: 10 * 0.25 = 2.5 -> 2, 10 * 0.75 = 7.5 -> 8.
TEST_F(CorpusTest, CutsAsMegatronDoes) {
    EXPECT_EQ(cut(parse_split("1,2,1"), 10), (std::array<Range, 3>{{{0, 2}, {2, 8}, {8, 10}}}));
    EXPECT_EQ(cut(parse_split("949,50,1"), 1000),
              (std::array<Range, 3>{{{0, 949}, {949, 999}, {999, 1000}}}));
    EXPECT_EQ(cut(parse_split("1,1,1"), 0), (std::array<Range, 3>{}));
}

TEST_F(CorpusTest, SplitsBetweenDocuments) {
    const auto opened = corpus(one_file(documents(100, 9), "auto", "90,8,2"));
    const CorpusFile& file = opened->sources()[0].files[0];
    EXPECT_EQ(file.documents, (std::array<Range, 3>{{{0, 90}, {90, 98}, {98, 100}}}));
    EXPECT_EQ(file.tokens, (std::array<Range, 3>{{{0, 810}, {810, 882}, {882, 900}}}));
    EXPECT_TRUE(opened->notes().empty());
}

TEST_F(CorpusTest, TooFewDocumentsAreSplitBetweenTokensAndItSaysSo) {
    const auto opened = corpus(one_file(documents(5, 20), "auto", "98,2,0"));
    const CorpusFile& file = opened->sources()[0].files[0];
    EXPECT_EQ(file.tokens, (std::array<Range, 3>{{{0, 98}, {98, 100}, {100, 100}}}));
    ASSERT_FALSE(opened->notes().empty());
    EXPECT_CONTAINS(opened->notes()[0], "split between tokens");
}

// No sample of one split holds a token of another, whatever the format.
TEST_F(CorpusTest, SplitsShareNoToken) {
    std::vector<std::uint16_t> ids(1000);
    std::iota(ids.begin(), ids.end(), 0);
    for (const char* split : {"98,2,0", "60,30,10", "1,1,1"}) {
        const auto opened = corpus(one_file(write_ids("iota.bin", ids), "raw16", split), 1000);
        std::array<std::set<std::int32_t>, 3> seen;
        for (int which = 0; which < 3; ++which) {
            const EvalSet all(opened, 4, 1000, static_cast<Split>(which));
            for (std::int64_t k = 0; k < all.size(); ++k) {
                Ids inputs(4), targets(4);
                all.read(k, inputs.data(), targets.data());
                seen[static_cast<std::size_t>(which)].insert(inputs.begin(), inputs.end());
                seen[static_cast<std::size_t>(which)].insert(targets.begin(), targets.end());
            }
        }
        std::size_t sum = 0;
        std::set<std::int32_t> together;
        for (const auto& part : seen) {
            sum += part.size();
            together.insert(part.begin(), part.end());
        }
        EXPECT_EQ(sum, together.size());
        EXPECT_GT(sum, 980u);
    }
}

// B53, at the start and for every rank alike.
TEST_F(CorpusTest, ABadIdIsFoundBeforeTraining) {
    auto ids = d0();
    ids[5000] = 70;
    const auto file = write_ids("bad.bin", ids);
    const std::string message =
        message_of(ExitCode::data_corrupt, [&] { corpus(one_file(file, "raw16"), 64); });
    EXPECT_CONTAINS(message, file + ": token at position 5000 has id 70, outside the vocabulary of 64");
    EXPECT_EQ(corpus(one_file(file, "raw16"), 71)->sources().size(), 1u);
}

// Files beyond the limit of the first check are read at start in blocks only: an id between them is met when
// it is used, by the ranks that read inputs and by those that read targets.
TEST_F(CorpusTest, ABadIdInALargeFileIsFoundWhenItIsRead) {
    constexpr std::int64_t limit = 1 << 20;
    std::vector<std::uint16_t> ids16(600'000, 5);  // 1.2 MB: blocks of 1,024 tokens, one every 1,172
    const std::int64_t bad = 250 * 1172 + 1100;
    ids16[static_cast<std::size_t>(bad)] = 70;
    const auto opened =
        std::make_shared<const Corpus>(one_file(write_ids("large.bin", ids16), "raw16"), 64, limit);
    const EvalSet all(opened, 1000, 600'000, Split::train);
    const std::int64_t sample = bad / 1000;
    Ids ids(1000);
    for (const bool inputs : {true, false}) {
        const std::string message = message_of(ExitCode::data_corrupt, [&] {
            all.read(sample, inputs ? ids.data() : nullptr, inputs ? nullptr : ids.data());
        });
        EXPECT_CONTAINS(message, "position " + std::to_string(bad) + " has id 70");
    }
}

TEST_F(CorpusTest, BadSourcesAreRefused) {
    const auto file = write_ids("d1.bin", d1());
    config::DataConfig config = one_file(file, "raw16");
    config.train.clear();
    EXPECT_CONTAINS(message_of(ExitCode::usage, [&] { corpus(config); }), "data.train");
    for (double weight : {0.0, -1.0, std::numeric_limits<double>::infinity()}) {
        config.train = {{file, 1.0}, {file, weight}};
        EXPECT_CONTAINS(message_of(ExitCode::usage, [&] { corpus(config); }), "data.train[1].weight");
    }
    config.train = {{path("none_*.bin"), 1.0}};
    EXPECT_CONTAINS(message_of(ExitCode::input_missing, [&] { corpus(config); }), "none_*.bin");
    config = one_file(file, "raw16");
    config.order = "random";
    EXPECT_CONTAINS(message_of(ExitCode::usage, [&] { corpus(config); }), "data.order: random");
    EXPECT_CONTAINS(message_of(ExitCode::usage, [&] { corpus(one_file(write_bytes("a.txt", "abc")), 256); }),
                    "model.vocab_size: 256");
}

TEST_F(CorpusTest, PatternsAreSortedAndPairsCountOnce) {
    write_ids("shard_10.bin", std::vector<std::uint16_t>{3, 3});
    write_ids("shard_02.bin", std::vector<std::uint16_t>{2, 2});
    const auto shards = corpus(one_file(path("shard_*"), "raw16"));
    ASSERT_EQ(shards->sources()[0].files.size(), 2u);
    EXPECT_EQ(shards->sources()[0].files[0].file->path(), path("shard_02.bin"));
    write_megatron<std::uint16_t>("pair_a", {{1, 2, 3}}, 8);
    write_megatron<std::uint16_t>("pair_b", {{1, 2, 3}}, 8);
    EXPECT_EQ(corpus(one_file(path("pair_*")))->sources()[0].files.size(), 2u);
}

TEST_F(CorpusTest, ANameThatExistsIsNoPattern) {
    write_ids("set[1].bin", d0());
    write_ids("set1.bin", d1());
    const auto only = [&](const std::string& name, const std::string& format) {
        const auto opened = corpus(one_file(path(name), format));
        EXPECT_EQ(opened->sources()[0].files.size(), 1u) << name;
        return opened->sources()[0].files[0].file->path();
    };
    EXPECT_EQ(only("set[1].bin", "raw16"), path("set[1].bin"));
    EXPECT_EQ(only("set[12].bin", "raw16"), path("set1.bin"));
    write_megatron<std::uint16_t>("pair*", {{1, 2, 3}}, 8);
    write_megatron<std::uint16_t>("pair_a", {{4, 5, 6}}, 8);
    for (const char* name : {"pair*", "pair*.bin", "pair*.idx"})
        EXPECT_EQ(only(name, "auto"), path("pair*.bin"));
}

TEST_F(CorpusTest, WarnsWhenNoEndOfDocumentIsThere) {
    write_megatron<std::uint16_t>("without", {{1, 2}, {3, 4}}, 8);
    write_megatron<std::uint16_t>("with", {{1, 0}, {3, 4, 0}, {}}, 8);
    ASSERT_EQ(corpus(one_file(path("without")))->notes().size(), 1u);
    EXPECT_CONTAINS(corpus(one_file(path("without")))->notes()[0], "no end of document");
    EXPECT_TRUE(corpus(one_file(path("with")))->notes().empty());
}

TEST_F(CorpusTest, FingerprintFollowsContentsWeightsAndSplits) {
    write_ids("a.bin", d0());
    write_ids("copy.bin", d0());
    write_ids("b.bin", d1());
    const auto print = [&](const std::vector<config::DataSource>& sources, const std::string& split) {
        config::DataConfig config = one_file("", "raw16", split);
        config.train = sources;
        return corpus(config)->fingerprint();
    };
    const auto first = print({{path("a.bin"), 1.0}}, "98,2,0");
    EXPECT_EQ(print({{path("copy.bin"), 3.0}}, "49,1,0"), first);
    std::set<std::uint64_t> all = {first,
                                   print({{path("a.bin"), 1.0}}, "97,3,0"),
                                   print({{path("b.bin"), 1.0}}, "98,2,0"),
                                   print({{path("a.bin"), 1.0}, {path("b.bin"), 1.0}}, "98,2,0"),
                                   print({{path("a.bin"), 1.0}, {path("b.bin"), 2.0}}, "98,2,0"),
                                   print({{path("b.bin"), 1.0}, {path("a.bin"), 1.0}}, "98,2,0")};
    EXPECT_EQ(all.size(), 6u);
}

// B54: nothing is written beside the data, and many readers at once see the same.
TEST_F(CorpusTest, ManyReadersNeedNoWritableFolder) {
    documents(40, 9);
    write_ids("d0.bin", d0());
    std::set<std::string> before, after;
    const auto list = [&](std::set<std::string>& names) {
        for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
            names.insert(entry.path().string());
    };
    list(before);
    ::chmod(folder_.path().c_str(), 0555);
    std::vector<Ids> seen(8);
    std::vector<std::thread> readers;
    for (Ids& mine : seen)
        readers.emplace_back([&, out = &mine] {
            config::DataConfig config = one_file(path("docs"));
            for (const char* order : {"native", "megatron"}) {
                config.order = order;
                const Dataset data(corpus(config), 8, 3, 100);
                for (std::int64_t k = 0; k < 100; ++k) {
                    Ids inputs(8);
                    data.read(k, inputs.data(), nullptr);
                    out->insert(out->end(), inputs.begin(), inputs.end());
                }
            }
        });
    for (std::thread& reader : readers) reader.join();
    ::chmod(folder_.path().c_str(), 0755);
    list(after);
    EXPECT_EQ(before, after);
    for (const Ids& mine : seen) EXPECT_EQ(mine, seen[0]);
}

}  // namespace
}  // namespace escalier::data
