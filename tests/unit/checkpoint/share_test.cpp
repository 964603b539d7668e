#include "checkpoint/share.h"

#include <gtest/gtest.h>

#include <set>

namespace escalier::checkpoint {
namespace {

StateList state_of(const std::vector<std::int64_t>& rows) {
    StateList state;
    for (std::size_t i = 0; i < rows.size(); ++i)
        state.push_back({"t" + std::to_string(i),
                         StateKind::weight,
                         {rows[i], 2},
                         i % 2 == 1,
                         {{0, 0}, {rows[i], 2}},
                         true,
                         TensorView(nullptr, DType::f32, {rows[i] * 2})});
    return state;
}

TEST(Share, DataParallelRanksSplitThePiecesAboutEvenly) {
    StateList state = state_of({5, 50, 7, 20, 30, 9, 1});
    state[5].counted = false;
    for (const int dp : {1, 2, 3, 7}) {
        std::set<std::string> written;
        std::vector<std::int64_t> load;
        for (int rank = 0; rank < dp; ++rank) {
            std::int64_t rows = 0;
            for (const SharePiece& piece : share_of(state, rank, dp)) {
                EXPECT_TRUE(written.insert(piece.name).second);
                EXPECT_EQ(piece.name, state[piece.tensor].name);
                rows += state[piece.tensor].global_shape[0];
            }
            load.push_back(rows);
        }
        EXPECT_EQ(written.size(), 6u) << "all but the one that is not counted";
        if (dp == 2) {
            EXPECT_EQ(load, (std::vector<std::int64_t>{57, 56}));
        }
    }
}

TEST(Share, IsStoredAsHuggingFaceDoes) {
    const std::vector<SharePiece> share = share_of(state_of({5, 50}), 0, 1);
    EXPECT_EQ(share[0].shape, (std::vector<std::int64_t>{5, 2}));
    EXPECT_EQ(share[1].shape, (std::vector<std::int64_t>{2, 50}));
    EXPECT_EQ(share[1].block, (Block{0, 0, 2, 50}));
}

TEST(Share, CrossesBetweenRanksAsText) {
    const std::vector<SharePiece> share = share_of(state_of({5, 50}), 0, 1);
    const std::vector<SharePiece> parsed = parse_share(share_text(share) + "   ");
    ASSERT_EQ(parsed.size(), share.size());
    for (std::size_t i = 0; i < share.size(); ++i) {
        EXPECT_EQ(parsed[i].name, share[i].name);
        EXPECT_EQ(parsed[i].kind, share[i].kind);
        EXPECT_EQ(parsed[i].shape, share[i].shape);
        EXPECT_EQ(parsed[i].block, share[i].block);
        EXPECT_EQ(parsed[i].key, share[i].key);
    }
}

TEST(Share, AManifestThatLeavesSomethingOutIsABrokenPromise) {
    std::vector<SharePiece> share = share_of(state_of({5, 50}), 0, 1);
    const std::vector<ManifestFile> files = {{"weights-00000.safetensors", 8, std::string(32, '0')}};
    Manifest manifest;
    fill_manifest(manifest, {share}, {files});
    EXPECT_EQ(manifest.tensors.size(), 2u);
    share[0].block.rows = 4;
    EXPECT_THROW(fill_manifest(manifest, {share}, {files}), InternalError);
}

}  // namespace
}  // namespace escalier::checkpoint
