#include "config/key_names.h"

#include <gtest/gtest.h>

#include <set>

#include "config_test_support.h"
#include "schedule/generators.h"

namespace escalier::config {
namespace {

TEST(ForeignNames, PointAtKeysThatExistAndAreNoKeysThemselves) {
    JobSpec spec;
    const FieldTable table = table_of(spec);
    std::set<std::string> seen;
    for (const ForeignName& name : foreign_names()) {
        EXPECT_TRUE(table.find(name.ours) || table.find_section(name.ours))
            << name.foreign << " -> " << name.ours;
        EXPECT_FALSE(table.find(name.foreign) || table.find_section(name.foreign)) << name.foreign;
        EXPECT_TRUE(seen.insert(name.foreign).second) << name.foreign << " stands twice";
    }
}

// config may not look into schedule, which stands beside it, so the two lists of kinds are held together
// here.
TEST(Schedules, ChoicesAreTheKindsThatExist) {
    JobSpec spec;
    const FieldTable table = table_of(spec);
    std::set<std::string> kinds;
    for (const schedule::Kind& kind : schedule::kinds()) kinds.emplace(kind.name);
    kinds.insert("csv");
    const auto& choices = std::get<TextField>(table.find("pipeline.schedule")->value).rule.choices;
    EXPECT_EQ(std::set<std::string>(choices.begin(), choices.end()), kinds);
}

TEST(Suggest, ForeignNamesAreNamedInAnySection) {
    JobSpec spec;
    const FieldTable table = table_of(spec);
    for (const ForeignName& name : foreign_names())
        for (const std::string section : {"", "train.", "parallel."}) {
            if (testing::contains(name.foreign, ".") && !section.empty()) continue;  // a path of its own
            const Suggestion suggestion = suggest(section + name.foreign, table);
            EXPECT_TRUE(testing::contains(suggestion.text, name.ours))
                << section + name.foreign << ": " << suggestion.text;
        }
}

TEST(Suggest, OneTypingErrorInAnyKeyFindsIt) {
    JobSpec spec;
    const FieldTable table = table_of(spec);
    for (const Field& field : table.all()) {
        const std::size_t leaf = field.path.rfind('.') + 1;
        if (field.path.size() - leaf < 4) continue;  // "tp" with an error is anything
        std::string swapped = field.path;
        std::swap(swapped[leaf + 1], swapped[leaf + 2]);
        if (swapped != field.path) {
            EXPECT_EQ(suggest(swapped, table).key, field.path);
        }
        std::string shorter = field.path;
        shorter.erase(leaf + 2, 1);
        EXPECT_EQ(suggest(shorter, table).key, field.path) << shorter;
    }
}

}  // namespace
}  // namespace escalier::config
