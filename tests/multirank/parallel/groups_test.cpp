// The groups of every place of a grid: members, order, and sums that reach exactly them.
#include "parallel/groups.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "parallel/rank_table.h"
#include "tests/harness/multirank_main.h"

namespace escalier::parallel {
namespace {

using test::env;

// The world ranks of a group, in its order.
std::vector<int> members(comm::Communicator& group) {
    std::vector<int> ranks(static_cast<std::size_t>(group.size()));
    int own = env().world().rank();
    group.all_gather(TensorView(ranks.data(), DType::i32, Shape{group.size()}),
                     TensorView(&own, DType::i32, Shape{1}), "members");
    return ranks;
}

// World ranks of all places for which `same` holds, ordered by pp_rank, dp_rank, tp_rank.
template <class Same>
std::vector<int> places_where(const Grid& grid, Same&& same) {
    std::vector<int> ranks;
    for (int rank = 0; rank < grid.ranks(); ++rank)
        if (same(grid.place_of(rank))) ranks.push_back(rank);
    return ranks;
}

void expect_groups(const Grid& grid) {
    Groups groups(env().world(), grid, 64);
    const GridPlace own = grid.place_of(env().world().rank());
    EXPECT_EQ(groups.place, own);
    EXPECT_EQ(groups.tp->rank(), own.tp_rank);
    EXPECT_EQ(groups.dp->rank(), own.dp_rank);
    EXPECT_EQ(groups.pp->rank(), own.pp_rank);
    EXPECT_EQ(members(*groups.tp), places_where(grid, [&](GridPlace p) {
                  return p.dp_rank == own.dp_rank && p.pp_rank == own.pp_rank;
              }));
    EXPECT_EQ(members(*groups.dp), places_where(grid, [&](GridPlace p) {
                  return p.tp_rank == own.tp_rank && p.pp_rank == own.pp_rank;
              }));
    EXPECT_EQ(members(*groups.pp), places_where(grid, [&](GridPlace p) {
                  return p.tp_rank == own.tp_rank && p.dp_rank == own.dp_rank;
              }));
    EXPECT_EQ(members(*groups.model),
              places_where(grid, [&](GridPlace p) { return p.dp_rank == own.dp_rank; }));
    EXPECT_EQ(groups.kv->size(), 1);
    EXPECT_EQ(groups.copies, nullptr);
    const auto at_an_end = [&](int pp_rank) { return pp_rank == 0 || pp_rank == grid.pp - 1; };
    ASSERT_EQ(groups.tied != nullptr, grid.pp > 1 && at_an_end(own.pp_rank));
    if (!groups.tied) return;
    EXPECT_EQ(members(*groups.tied), places_where(grid, [&](GridPlace p) {
                  return p.tp_rank == own.tp_rank && p.dp_rank == own.dp_rank && at_an_end(p.pp_rank);
              }));
}

TEST(Groups, OfEveryGridOfEightRanks) {
    for (const int tp : {1, 2, 4, 8})
        for (const int pp : {1, 2, 4, 8})
            if (8 % (tp * pp) == 0) expect_groups({tp, pp, 8 / (tp * pp)});
}

// The ends of a model may lie anywhere: of the two tied ranks the one with the embedding comes first.
TEST(Groups, TiedRanksFollowThePlacement) {
    const Grid grid{1, 4, 2};
    const int own = grid.place_of(env().world().rank()).pp_rank;
    const int first_rank = grid.rank_of({0, grid.place_of(env().world().rank()).dp_rank, 2});
    const int last_rank = grid.rank_of({0, grid.place_of(env().world().rank()).dp_rank, 1});
    Groups apart(env().world(), grid, 64, {2, 1, false});
    ASSERT_EQ(apart.tied != nullptr, own == 1 || own == 2);
    if (apart.tied) EXPECT_EQ(members(*apart.tied), (std::vector<int>{first_rank, last_rank}));
    Groups together(env().world(), grid, 64, {0, 0, false});
    EXPECT_EQ(together.tied, nullptr);
}

TEST(Groups, TwoCopiesOfTheModelMeetOnMirroredRanks) {
    const Grid grid{1, 4, 2};
    const GridPlace own = grid.place_of(env().world().rank());
    Groups groups(env().world(), grid, 64, {0, 3, true});
    ASSERT_NE(groups.copies, nullptr);
    EXPECT_EQ(groups.tied, nullptr);
    const int near = std::min(own.pp_rank, 3 - own.pp_rank);
    EXPECT_EQ(members(*groups.copies), (std::vector<int>{grid.rank_of({0, own.dp_rank, near}),
                                                         grid.rank_of({0, own.dp_rank, 3 - near})}));
}

TEST(Groups, RanksWithCopiesOfTheSameKeyValueHeadsFormAGroup) {
    Groups groups(env().world(), {4, 2, 1}, 2);
    const int first = groups.place.pp_rank * 4 + groups.place.tp_rank / 2 * 2;
    EXPECT_EQ(members(*groups.kv), (std::vector<int>{first, first + 1}));
    Groups all(env().world(), {4, 2, 1}, 1);
    EXPECT_EQ(members(*all.kv), members(*all.tp));
}

TEST(Groups, RefuseAJobOfAnotherSize) {
    try {
        Groups groups(env().world(), {2, 2, 1}, 1);
        FAIL() << "8 ranks make no 2x2x1 grid";
    } catch (const ConfigError& error) {
        const std::string message = error.what();
        EXPECT_NE(message.find("grid 2x2x1 (tensor x pipeline x data) needs 4 processes, got 8"),
                  std::string::npos)
            << message;
    }
}

TEST(RankTable, IsTheSameOnAllRanks) {
    const Grid grid{2, 2, 2};
    schedule::Schedule schedule;
    schedule.pp = 2;
    const RankTable table = gather_rank_table(env().world(), grid, schedule, env().place(), 1);
    ASSERT_EQ(table.rows.size(), 8u);
    const RankRow& own = table.rows[static_cast<std::size_t>(env().world().rank())];
    EXPECT_EQ(own.place, grid.place_of(env().world().rank()));
    EXPECT_EQ(own.stages, std::vector<int>{own.place.pp_rank});
    EXPECT_EQ(own.host, env().place().host);
    EXPECT_EQ(own.local_rank, env().place().local_rank);
    EXPECT_EQ(std::count(table.text.begin(), table.text.end(), '\n'), 8);
    EXPECT_EQ(table.warnings.empty(), env().place().node_cores >= 8);  // eight ranks of one thread each
}

}  // namespace
}  // namespace escalier::parallel
