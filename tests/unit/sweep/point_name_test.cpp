#include "sweep/point_name.h"

#include <gtest/gtest.h>

#include <set>

namespace escalier::sweep {
namespace {

TEST(PointName, HasTheEndsOfKeysAndTheValues) {
    EXPECT_EQ(point_name({{"pipeline.schedule", "zb-h1"}, {"parallel.pp", "4"}, {"train.micro_batch", "2"}}),
              "schedule-zb-h1_pp-4_micro_batch-2");
    EXPECT_EQ(point_name({{"lr.peak", "1e-05"}}), "peak-1e-05");
    EXPECT_EQ(point_name({{"pipeline.layout", "[3, 3, 2]"}}), "layout-3-3-2");
}

TEST(PointName, TellsKeysThatEndAlikeApart) {
    EXPECT_EQ(point_name({{"pipeline.schedule", "1f1b"}, {"lr.schedule", "wsd"}, {"parallel.pp", "2"}}),
              "pipeline.schedule-1f1b_lr.schedule-wsd_pp-2");
}

TEST(PointName, IsAFolderNameWhateverTheValue) {
    std::set<std::string> names;
    for (const std::string value : {"[{path: data/a, weight: 1.0}]", "[{path: data/b, weight: 1.0}]",
                                    "\"a/../b\"", "\"a b\"", "\"a\\nb\"", "\"\xc3\xa9\"", "{every: 2}",
                                    "{every: 3}", "a-value-of-more-than-thirty-two-characters-in-all"}) {
        const std::string name = point_name({{"data.train", value}});
        EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_."), std::string::npos)
            << name;
        EXPECT_LE(name.size(), 40u);
        EXPECT_TRUE(names.insert(name).second) << value << " has the name of another value";
    }
}

TEST(PointName, IsBoundedAndStillItsOwn) {
    std::vector<config::SweepSetting> settings;
    for (int i = 0; i < 30; ++i) settings.push_back({"some.key_number_" + std::to_string(i), "value"});
    const std::string name = point_name(settings);
    EXPECT_LE(name.size(), 160u);
    settings.back().value = "other";
    EXPECT_NE(point_name(settings), name);
    EXPECT_EQ(point_name(settings).size(), name.size());
}

}  // namespace
}  // namespace escalier::sweep
