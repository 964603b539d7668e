#include "checkpoint/piece_file.h"

#include <algorithm>
#include <bit>

#include "checkpoint/safetensors.h"
#include "checkpoint/stored_block.h"
#include "core/error.h"

namespace escalier::checkpoint {

namespace {

// Looked through, hashed and written while it is in the processor's cache.
constexpr std::size_t chunk_floats = std::size_t{64} << 10;

std::string header_of(const std::vector<PieceFile::Tensor>& tensors) {
    std::vector<HeaderEntry> entries;
    for (const PieceFile::Tensor& tensor : tensors) entries.push_back({tensor.key, tensor.shape, "F32"});
    return file_header(entries, {});
}

bool all_finite(const float* values, std::size_t count) {
    constexpr std::uint32_t exponent = 0x7f800000;
    std::uint32_t found = 0;
    for (std::size_t i = 0; i < count; ++i)
        found |= static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(values[i]) & exponent) == exponent);
    return found == 0;
}

}  // namespace

PieceFile::PieceFile(FileLayer& files, const std::string& directory, const std::string& name,
                     std::vector<Tensor> tensors, const std::atomic<bool>& cancel)
    : file_(files.create(directory + "/" + name)), tensors_(std::move(tensors)), cancel_(cancel) {
    result_.name = name;
    const std::string header = header_of(tensors_);
    write(header.data(), header.size());
}

void PieceFile::append(const float* values, bool transposed) {
    const Block whole = whole_block(tensors_.at(next_).shape);
    if (!transposed) {
        write_values(values, static_cast<std::size_t>(whole.elements()));
    } else {
        const std::int64_t some =
            std::max<std::int64_t>(16, static_cast<std::int64_t>(chunk_floats) / whole.columns);
        stored_rows_.resize(static_cast<std::size_t>(std::min(some, whole.rows) * whole.columns));
        for (std::int64_t row = 0; row < whole.rows; row += some) {
            const std::int64_t rows = std::min(some, whole.rows - row);
            read_block(reinterpret_cast<const char*>(values), "F32", whole.rows,
                       {0, row, whole.columns, rows}, stored_rows_.data(), 1, whole.columns);
            write_values(stored_rows_.data(), static_cast<std::size_t>(rows * whole.columns));
        }
    }
    ++next_;
}

void PieceFile::write_values(const float* values, std::size_t count) {
    while (count > 0) {
        if (cancel_) throw WriteCancelled();
        const std::size_t some = std::min(count, chunk_floats);
        if (!all_finite(values, some))
            throw NumericError(
                tensors_[next_].key +
                " holds NaN or infinity, which is not saved; earlier checkpoints are untouched. "
                "Resume from one of them with a lower lr.peak or with optimizer.clip_grad.");
        write(values, some * sizeof(float));
        values += some;
        count -= some;
    }
}

void PieceFile::write(const void* data, std::size_t bytes) {
    hash_.add(data, bytes);
    file_->write(data, bytes);
    result_.bytes += bytes;
}

ManifestFile PieceFile::finish() {
    ESCALIER_CHECK(next_ == tensors_.size(), "fewer tensors than the header names");
    file_->sync();
    result_.xxh3_128 = hash_.hex();
    return result_;
}

}  // namespace escalier::checkpoint
