#include "data/megatron_order.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "data/blend.h"
#include "fixtures.h"

namespace escalier::data {
namespace {

using Ids = std::vector<std::int32_t>;

class MegatronOrderTest : public DataTest {
 protected:
    static nlohmann::json golden(const char* part) {
        std::ifstream file(ESCALIER_GOLDEN "/megatron_order.json");
        return nlohmann::json::parse(file).at(part);
    }
    // A file whose token i is i, cut into documents of the given lengths.
    std::string counting_file(const std::vector<std::int64_t>& lengths) {
        std::vector<std::vector<std::int32_t>> documents;
        std::int32_t next = 0;
        for (std::int64_t length : lengths) {
            documents.emplace_back(static_cast<std::size_t>(length));
            std::iota(documents.back().begin(), documents.back().end(), next);
            next += static_cast<std::int32_t>(length);
        }
        return write_megatron<std::int32_t>("counting", documents, 4);
    }
};

TEST_F(MegatronOrderTest, ShufflesAsNumpyDoes) {
    Ids twenty(20);
    std::iota(twenty.begin(), twenty.end(), 0);
    RandomState(1234).shuffle(std::span(twenty));
    EXPECT_EQ(twenty, (Ids{3, 13, 2, 16, 14, 5, 4, 0, 8, 18, 17, 11, 10, 9, 7, 1, 19, 12, 6, 15}));
    for (const auto& wanted : golden("shuffles")) {
        Ids values(wanted.at("values").size());
        std::iota(values.begin(), values.end(), 0);
        RandomState(wanted.at("seed").get<std::uint32_t>()).shuffle(std::span(values));
        EXPECT_EQ(values, wanted.at("values").get<Ids>());
    }
}

TEST_F(MegatronOrderTest, ReproducesTheGoldenFileOfTheFormat) {
    const auto prefix =
        write_megatron<std::uint16_t>("golden", {{1, 2, 3, 0}, {4, 5, 0}, {6, 7, 8, 9, 10, 0}}, 8);
    config::DataConfig config = one_file(prefix);
    config.order = "megatron";
    const std::shared_ptr<const TokenFile> file = open_token_file(prefix);
    const MegatronOrder order(file, {0, 3}, 4, 6, 1234);
    EXPECT_EQ(order.document_index(), (Ids{2, 1, 2, 0, 1, 0}));
    EXPECT_EQ(order.shuffle_index(), (std::vector<std::uint32_t>{0, 4, 3, 2, 5, 1}));
    const Ids stream = {6, 7, 8, 9, 10, 0, 4, 5, 0, 6, 7, 8, 9, 10, 0, 1, 2, 3, 0, 4, 5, 0, 1, 2, 3, 0};
    const Dataset data(corpus(config), 4, 1234, 6);
    const std::vector<std::int64_t> samples = {0, 4, 3, 2, 5, 1};
    for (std::int64_t k = 0; k < 6; ++k) {
        Ids inputs(4), targets(4);
        data.read(k, inputs.data(), targets.data());
        const auto begin = stream.begin() + 4 * samples[static_cast<std::size_t>(k)];
        EXPECT_EQ(inputs, Ids(begin, begin + 4));
        EXPECT_EQ(targets, Ids(begin + 1, begin + 5));
    }
}

TEST_F(MegatronOrderTest, ReproducesNumpysOrders) {
    for (const auto& wanted : golden("orders")) {
        SCOPED_TRACE(wanted.at("lengths").dump() + " " + wanted.at("seed").dump());
        config::DataConfig config = one_file(counting_file(wanted.at("lengths")), "auto", wanted.at("split"));
        config.order = "megatron";
        const auto opened = corpus(config, 1 << 20);
        const auto which = wanted.at("which").get<std::size_t>();
        const auto seq_len = wanted.at("seq_len").get<std::int64_t>();
        const auto samples = wanted.at("samples").get<std::int64_t>();
        const auto seed = wanted.at("seed").get<std::uint64_t>();
        const CorpusFile& file = opened->sources()[0].files[0];
        const MegatronOrder order(file.file, file.documents[which], seq_len, samples, seed);
        EXPECT_EQ(order.document_index(), wanted.at("document_index").get<Ids>());
        EXPECT_EQ(order.shuffle_index(), wanted.at("shuffle_index").get<std::vector<std::uint32_t>>());
        const Dataset data(opened, seq_len, seed, samples, static_cast<Split>(which));
        Ids inputs(static_cast<std::size_t>(seq_len)), targets(inputs.size());
        std::uint64_t checksum = 0;
        const auto add = [&](std::int32_t id) {
            checksum = (checksum * 31 + static_cast<std::uint64_t>(id)) % ((std::uint64_t{1} << 56) - 5);
        };
        for (std::int64_t k = 0; k < order.samples(); ++k) {
            data.read(k, inputs.data(), targets.data());
            for (std::int32_t id : inputs) add(id);
            add(targets.back());
            EXPECT_EQ(Ids(inputs.begin() + 1, inputs.end()), Ids(targets.begin(), targets.end() - 1));
        }
        EXPECT_EQ(checksum, wanted.at("checksum").get<std::uint64_t>());
    }
}

TEST_F(MegatronOrderTest, BlendsGreedily) {
    for (const auto& wanted : golden("blends")) {
        const auto picks = wanted.at("picks").get<std::vector<std::int64_t>>();
        std::vector<double> shares = wanted.at("weights");
        const double sum = numpy_sum(shares);
        for (double& share : shares) share /= sum;
        EXPECT_EQ(shares, wanted.at("shares").get<std::vector<double>>());
        const auto order = megatron_blend(shares, static_cast<std::int64_t>(picks.size()));
        std::vector<std::int64_t> taken(shares.size(), 0);
        for (std::size_t k = 0; k < picks.size(); ++k) {
            EXPECT_EQ(order[k].source, picks[k]);
            EXPECT_EQ(order[k].index, taken[static_cast<std::size_t>(picks[k])]++);
        }
    }
}

TEST_F(MegatronOrderTest, ABlendReadsEachSourcesOwnOrder) {
    const auto a = write_megatron<std::uint16_t>("a", std::vector(20, std::vector<std::uint16_t>(9, 1)), 8);
    const auto b = write_megatron<std::uint16_t>("b", std::vector(20, std::vector<std::uint16_t>(9, 2)), 8);
    config::DataConfig config = one_file(a);
    config.train = {{a, 0.3}, {b, 0.7}};
    config.order = "megatron";
    const Dataset data(corpus(config), 8, 1234, 100);
    const auto order = megatron_blend({0.3, 0.7}, 100);
    for (std::int64_t k = 0; k < 100; ++k) {
        Ids inputs(8);
        data.read(k, inputs.data(), nullptr);
        EXPECT_EQ(inputs, Ids(8, order[static_cast<std::size_t>(k)].source == 0 ? 1 : 2));
        EXPECT_EQ(data.locate(k).source, order[static_cast<std::size_t>(k)].source);
    }
    EXPECT_THROW(data.locate(100), InternalError);
}

TEST_F(MegatronOrderTest, WhatItCannotReproduceIsRefused) {
    config::DataConfig raw = one_file(write_ids("d1.bin", d1()), "raw16");
    raw.order = "megatron";
    EXPECT_CONTAINS(message_of(ExitCode::usage, [&] { corpus(raw); }), "data.order: megatron");
    config::DataConfig pair = one_file(counting_file({10, 20}));
    pair.order = "megatron";
    EXPECT_CONTAINS(message_of(ExitCode::usage, [&] { Dataset(corpus(pair), 4, std::uint64_t{1} << 32, 5); }),
                    "4294967295");
    EXPECT_CONTAINS(
        message_of(ExitCode::data_corrupt, [&] { Dataset(corpus(pair), 1, 1, std::int64_t{1} << 33); }),
        "data.order: native");
    pair.train[0].path = path("counting*");
    write_megatron<std::int32_t>("counting_2", {{1, 2, 3, 4, 5}}, 4);
    EXPECT_CONTAINS(message_of(ExitCode::usage, [&] { Dataset(corpus(pair), 4, 1, 5); }), "matches 2 files");
    // Megatron's rule leaves this validation split empty; the order must not be changed by cutting between
    // tokens.
    config::DataConfig split = one_file(counting_file({10, 20}), "auto", "98,2,0");
    split.order = "megatron";
    EXPECT_EQ(EvalSet(corpus(split), 4, 8).size(), 0);
}

}  // namespace
}  // namespace escalier::data
