#include "checkpoint/share.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

#include "checkpoint/manifest_fields.h"
#include "device/arena.h"

namespace escalier::checkpoint {

namespace {

// The dp rank that writes each tensor; -1: none does.
std::vector<int> writers_of(const StateList& state, int dp) {
    std::vector<int> writers(state.size(), -1);
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < state.size(); ++i)
        if (state[i].counted && state[i].view.elements() > 0) order.push_back(i);
    // Largest first, each to the rank that has the least so far.
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return state[a].view.elements() > state[b].view.elements();
    });
    std::vector<std::int64_t> load(static_cast<std::size_t>(dp));
    for (const std::size_t i : order) {
        const auto least = std::min_element(load.begin(), load.end());
        *least += state[i].view.elements();
        writers[i] = static_cast<int>(least - load.begin());
    }
    return writers;
}

}  // namespace

std::vector<SharePiece> share_of(const StateList& state, int dp_rank, int dp) {
    const std::vector<int> writers = writers_of(state, dp);
    std::vector<SharePiece> share;
    for (std::size_t i = 0; i < state.size(); ++i) {
        if (writers[i] != dp_rank) continue;
        const StateTensor& tensor = state[i];
        SharePiece piece{i, tensor.name, tensor.kind, stored_shape(tensor), stored_block(tensor), ""};
        piece.key = piece_key(piece.name, piece.kind, piece.shape, piece.block);
        share.push_back(piece);
    }
    return share;
}

int fullest_share(const StateList& state, int dp) {
    const std::vector<int> writers = writers_of(state, dp);
    std::vector<device::Arena> shares;
    for (int rank = 0; rank < dp; ++rank) shares.emplace_back("staging");
    for (std::size_t i = 0; i < state.size(); ++i)
        if (writers[i] >= 0)
            shares[static_cast<std::size_t>(writers[i])].take(DType::f32, {state[i].view.elements()});
    const auto fullest = std::max_element(shares.begin(), shares.end(),
                                          [](const auto& a, const auto& b) { return a.used() < b.used(); });
    return static_cast<int>(fullest - shares.begin());
}

std::string share_file_name(bool weights, int world_rank) {
    char name[48];
    std::snprintf(name, sizeof name, "%s-%05d.safetensors", weights ? "weights" : "optim", world_rank);
    return name;
}

std::string share_text(const std::vector<SharePiece>& share) {
    nlohmann::json list = nlohmann::json::array();
    for (const SharePiece& piece : share)
        list.push_back({piece.name,
                        static_cast<int>(piece.kind),
                        piece.shape,
                        {piece.block.row, piece.block.column, piece.block.rows, piece.block.columns}});
    return list.dump();
}

std::vector<SharePiece> parse_share(const std::string& text) {
    std::vector<SharePiece> share;
    for (const nlohmann::json& entry : nlohmann::json::parse(text)) {
        SharePiece piece;
        piece.name = entry[0].get<std::string>();
        piece.kind = static_cast<StateKind>(entry[1].get<int>());
        piece.shape = entry[2].get<std::vector<std::int64_t>>();
        piece.block = {entry[3][0], entry[3][1], entry[3][2], entry[3][3]};
        piece.key = piece_key(piece.name, piece.kind, piece.shape, piece.block);
        share.push_back(piece);
    }
    return share;
}

void fill_manifest(Manifest& manifest, const std::vector<std::vector<SharePiece>>& shares,
                   const std::vector<std::vector<ManifestFile>>& files) {
    manifest.files.clear();
    manifest.tensors.clear();
    std::map<std::string, std::size_t> index;
    for (const std::vector<ManifestFile>& written : files)
        for (const ManifestFile& file : written) {
            index[file.name] = manifest.files.size();
            manifest.files.push_back(file);
        }
    for (std::size_t rank = 0; rank < shares.size(); ++rank)
        for (const SharePiece& piece : shares[rank]) {
            ManifestTensor& tensor = manifest.tensors[piece.name];
            ESCALIER_CHECK(tensor.shape.empty() || tensor.shape == piece.shape,
                           "ranks disagree on the shape of " + piece.name);
            tensor.shape = piece.shape;
            const bool weights = piece.kind == StateKind::weight;
            tensor.pieces[static_cast<std::size_t>(piece.kind)].push_back(
                {index.at(share_file_name(weights, static_cast<int>(rank))), piece.key, piece.block});
        }
    const std::string fault = coverage_fault(manifest);
    ESCALIER_CHECK(fault.empty(), fault);
}

}  // namespace escalier::checkpoint
