#include "checkpoint/write_share.h"

#include "checkpoint/piece_file.h"

namespace escalier::checkpoint {

std::vector<ManifestFile> write_share(FileLayer& files, const std::string& directory, int world_rank,
                                      const std::vector<SharePiece>& share,
                                      const std::function<PieceValues(std::size_t piece)>& values,
                                      const std::atomic<bool>& cancel) {
    std::vector<ManifestFile> written;
    for (const bool weights : {true, false}) {
        std::vector<std::size_t> pieces;
        std::vector<PieceFile::Tensor> tensors;
        for (std::size_t i = 0; i < share.size(); ++i) {
            if ((share[i].kind == StateKind::weight) != weights) continue;
            pieces.push_back(i);
            const Block& block = share[i].block;
            if (share[i].shape.size() == 1)
                tensors.push_back({share[i].key, {block.columns}});
            else
                tensors.push_back({share[i].key, {block.rows, block.columns}});
        }
        if (pieces.empty()) continue;
        PieceFile file(files, directory, share_file_name(weights, world_rank), std::move(tensors), cancel);
        for (const std::size_t i : pieces) {
            const PieceValues piece = values(i);
            if (!piece.data) throw WriteCancelled();
            file.append(piece.data, piece.transposed);
        }
        written.push_back(file.finish());
    }
    return written;
}

}  // namespace escalier::checkpoint
