#include "checkpoint/reader.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "checkpoint/file_hash.h"
#include "checkpoint/run_folder.h"
#include "checkpoint/safetensors.h"

namespace escalier::checkpoint {

// Files are opened, and held against the manifest, when something in them is first read.
class CheckpointReader::Files {
 public:
    explicit Files(const std::string& directory)
        : directory_(directory), manifest_(read_manifest(directory)), opened_(manifest_.files.size()) {}

    const std::string& directory() const { return directory_; }
    const Manifest& manifest() const { return manifest_; }
    std::string path(std::size_t index) const { return directory_ + "/" + manifest_.files[index].name; }

    const SafetensorsReader& open(std::size_t index) {
        std::unique_ptr<SafetensorsReader>& reader = opened_[index];
        if (!reader) {
            auto opened = std::make_unique<SafetensorsReader>(path(index));
            check(*opened, index);
            reader = std::move(opened);
        }
        return *reader;
    }

 private:
    void check(const SafetensorsReader& reader, std::size_t index) const {
        std::size_t pieces = 0;
        for (const auto& [name, tensor] : manifest_.tensors)
            for (const StateKind kind : all_state_kinds)
                for (const ManifestPiece& piece : tensor.of(kind)) {
                    if (piece.file != index) continue;
                    ++pieces;
                    check(reader, piece, tensor.shape.size());
                }
        if (pieces != reader.tensors().size())
            throw DataError(reader.path() + ": holds " + std::to_string(reader.tensors().size()) +
                            " tensors, but the manifest names " + std::to_string(pieces) +
                            " in it. The checkpoint is damaged: use another one.");
    }

    static void check(const SafetensorsReader& reader, const ManifestPiece& piece, std::size_t axes) {
        TensorInfo expected{"F32", {piece.block.rows, piece.block.columns}};
        if (axes == 1) expected.shape = {piece.block.columns};
        const auto stored = reader.tensors().find(piece.key);
        if (stored == reader.tensors().end() || stored->second.dtype != expected.dtype ||
            stored->second.shape != expected.shape)
            throw DataError(reader.path() + ": '" + piece.key + "' is " +
                            (stored == reader.tensors().end() ? "missing" : stored->second.text()) +
                            "; by the manifest it is " + expected.text() +
                            ". The checkpoint is damaged: use another one.");
    }

    std::string directory_;
    Manifest manifest_;
    std::vector<std::unique_ptr<SafetensorsReader>> opened_;
};

class CheckpointReader::Tensors : public TensorSource {
 public:
    Tensors(Files& files, StateKind kind) : files_(files), kind_(kind) {
        for (const auto& [name, tensor] : files.manifest().tensors)
            if (!tensor.of(kind).empty()) tensors_.emplace(name, TensorInfo{"F32", tensor.shape});
    }

    const std::string& path() const override { return files_.directory(); }
    const std::map<std::string, TensorInfo>& tensors() const override { return tensors_; }

    void read_box(const std::string& name, const model::Box& box, bool transposed,
                  float* out) const override {
        const ManifestTensor& tensor = files_.manifest().tensors.at(name);
        const Block wanted = stored_block(box, transposed);
        const bool turned = transposed && box.extent.rank() == 2;
        const std::int64_t row_step = turned ? 1 : wanted.columns, column_step = turned ? wanted.rows : 1;
        std::int64_t elements = 0;
        for (const ManifestPiece& piece : tensor.of(kind_)) {
            const std::optional<Block> part = intersection(wanted, piece.block);
            if (!part) continue;
            Block in_piece = *part;
            in_piece.row -= piece.block.row;
            in_piece.column -= piece.block.column;
            files_.open(piece.file)
                .read_block(
                    piece.key, in_piece,
                    out + (part->row - wanted.row) * row_step + (part->column - wanted.column) * column_step,
                    row_step, column_step);
            elements += part->elements();
        }
        ESCALIER_CHECK(elements == wanted.elements(), "a box lies outside " + name);
    }

 private:
    Files& files_;
    StateKind kind_;
    std::map<std::string, TensorInfo> tensors_;
};

CheckpointReader::CheckpointReader(const std::string& step_directory)
    : files_(std::make_unique<Files>(step_directory)) {
    for (const StateKind kind : all_state_kinds)
        tensors_[static_cast<std::size_t>(kind)] = std::make_unique<Tensors>(*files_, kind);
}

CheckpointReader::~CheckpointReader() = default;

const std::string& CheckpointReader::directory() const {
    return files_->directory();
}

const Manifest& CheckpointReader::manifest() const {
    return files_->manifest();
}

std::string CheckpointReader::config_text() const {
    const std::string path = directory() + "/" + config_name;
    std::ifstream file(path, std::ios::binary);
    if (!file) throw IoError::read(path + ": cannot be read");
    return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string CheckpointReader::assets_directory() const {
    const std::string path = directory() + "/" + assets_name;
    return std::filesystem::is_directory(path) ? path : "";
}

const TensorSource& CheckpointReader::tensors(StateKind kind) const {
    return *tensors_[static_cast<std::size_t>(kind)];
}

void CheckpointReader::verify_file(std::size_t index) const {
    const ManifestFile& file = manifest().files.at(index);
    const std::string path = files_->path(index);
    const std::string hash = hash_of_file(path);
    if (hash != file.xxh3_128)
        throw DataError(path + ": its hash (XXH3_128) is " + hash + ", but " + file.xxh3_128 +
                        " by the manifest. The checkpoint is damaged: use another one.");
}

}  // namespace escalier::checkpoint
