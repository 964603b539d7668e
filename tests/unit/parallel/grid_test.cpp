#include "parallel/grid.h"

#include <gtest/gtest.h>

#include "parallel/partition.h"
#include "parallel/rank_table.h"

namespace escalier::parallel {
namespace {

TEST(Grid, TensorRanksAreNeighboursAndPipelineIsSlowest) {
    const Grid grid{2, 2, 2};
    EXPECT_EQ(grid.text(), "2x2x2");
    EXPECT_EQ(grid.ranks(), 8);
    EXPECT_EQ(grid.place_of(0), (GridPlace{0, 0, 0}));
    EXPECT_EQ(grid.place_of(1), (GridPlace{1, 0, 0}));
    EXPECT_EQ(grid.place_of(2), (GridPlace{0, 1, 0}));
    EXPECT_EQ(grid.place_of(4), (GridPlace{0, 0, 1}));
    EXPECT_EQ((Grid{2, 3, 4}.text()), "2x3x4");
}

TEST(Grid, PlacesAndRanksAreInverse) {
    const Grid grid{3, 4, 5};
    for (int rank = 0; rank < grid.ranks(); ++rank) EXPECT_EQ(grid.rank_of(grid.place_of(rank)), rank);
}

TEST(Partition, StagesFollowOneAnother) {
    const std::vector<std::int64_t> layers = {3, 0, 2};
    EXPECT_EQ(part_of_stage(layers, 0), (StagePart{0, 3, true, false}));
    EXPECT_EQ(part_of_stage(layers, 1), (StagePart{3, 3, false, false}));
    EXPECT_EQ(part_of_stage(layers, 2), (StagePart{3, 5, false, true}));
    EXPECT_EQ(part_of_stage({7}, 0), (StagePart{0, 7, true, true}));
    EXPECT_THROW(part_of_stage(layers, 3), InternalError);
}

std::vector<RankRow> rows_of(const Grid& grid, int ranks_per_host, int cores, int node_cores, int threads) {
    std::vector<RankRow> rows;
    for (int rank = 0; rank < grid.ranks(); ++rank)
        rows.push_back({rank,
                        grid.place_of(rank),
                        {grid.place_of(rank).pp_rank},
                        std::string("node").append(std::to_string(rank / ranks_per_host)),
                        rank % ranks_per_host,
                        cores,
                        node_cores,
                        threads});
    return rows;
}

TEST(RankTable, OneLinePerRank) {
    const std::string text = rank_table_text(rows_of({2, 2, 1}, 4, 8, 8, 2));
    EXPECT_EQ(text,
              " rank  host   local  cores  threads   tp   pp   dp  stages\n"
              "    0  node0      0      8        2    0    0    0  0\n"
              "    1  node0      1      8        2    1    0    0  0\n"
              "    2  node0      2      8        2    0    1    0  1\n"
              "    3  node0      3      8        2    1    1    0  1");
}

TEST(RankTable, NamesTheStagesOfEveryPlacement) {
    schedule::Schedule schedule;
    schedule.pp = 4;
    schedule.chunks = 2;
    EXPECT_EQ(stages_of_rank(schedule, 1), (std::vector<int>{1, 5}));
    schedule.placement = schedule::Placement::v;
    EXPECT_EQ(stages_of_rank(schedule, 1), (std::vector<int>{1, 6}));
    schedule.placement = schedule::Placement::bidirectional;
    EXPECT_EQ(stages_of_rank(schedule, 1), (std::vector<int>{1, 2}));
    std::vector<RankRow> rows = rows_of({1, 1, 1}, 1, 1, 1, 1);
    rows[0].stages = {0, 4, 8, 12, 16, 20, 24, 28};
    EXPECT_NE(rank_table_text(rows).find("  0, 4, 8, 12, 16 ..., 28"), std::string::npos)
        << rank_table_text(rows);
}

TEST(RankTable, NamesTheDevice) {
    std::vector<RankRow> rows = rows_of({1, 2, 1}, 2, 4, 8, 1);
    rows[0].stages = {0, 2, 4, 6};
    for (RankRow& row : rows) row.device = "GPU " + std::to_string(row.local_rank);
    EXPECT_EQ(rank_table_text(rows),
              " rank  host   local  cores  threads   tp   pp   dp  stages      device\n"
              "    0  node0      0      4        1    0    0    0  0, 2, 4, 6  GPU 0\n"
              "    1  node0      1      4        1    0    1    0  1           GPU 1");
}

TEST(RankTable, LongTablesAreCutInTheMiddle) {
    const std::string text = rank_table_text(rows_of({1, 1, 100}, 100, 1, 100, 1));
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 16 + 1 + 16);
    EXPECT_NE(text.find("68 more ranks"), std::string::npos) << text;
    EXPECT_NE(text.find("\n   99 "), std::string::npos) << text;
}

TEST(RankTable, NoWarningWhenAllFits) {
    EXPECT_TRUE(rank_table_warnings(rows_of({2, 2, 2}, 4, 8, 8, 2), {2, 2, 2}).empty());
    EXPECT_TRUE(
        rank_table_warnings(rows_of({1, 2, 1}, 2, 1, 2, 1), {1, 2, 1}).empty());  // bound to a core each
}

TEST(RankTable, WarnsOfTensorGroupsAcrossHosts) {
    const auto warnings = rank_table_warnings(rows_of({4, 1, 1}, 2, 8, 8, 1), {4, 1, 1});
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_NE(warnings[0].find("ranks 0 to 3 spans the hosts node0, node1"), std::string::npos)
        << warnings[0];
}

TEST(RankTable, WarnsOfTooManyThreads) {
    const auto together = rank_table_warnings(rows_of({1, 4, 1}, 4, 2, 2, 1), {1, 4, 1});
    ASSERT_EQ(together.size(), 1u);
    EXPECT_NE(together[0].find("4 ranks run 4 compute threads on 2 allowed cores"), std::string::npos)
        << together[0];
    const auto bound = rank_table_warnings(rows_of({1, 2, 1}, 2, 1, 4, 2), {1, 2, 1});
    ASSERT_EQ(bound.size(), 1u);
    EXPECT_NE(bound[0].find("rank 1 on host node0 runs 2 compute threads on 1 allowed cores"),
              std::string::npos)
        << bound[0];
}

}  // namespace
}  // namespace escalier::parallel
