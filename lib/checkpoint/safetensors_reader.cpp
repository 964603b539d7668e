#include "checkpoint/safetensors.h"

namespace escalier::checkpoint {

SafetensorsReader::SafetensorsReader(const std::string& path)
    : path_(path), file_(path), header_(parse_header(file_.bytes(), path)) {
    for (const auto& [name, stored] : header_.tensors) tensors_.emplace(name, stored.info);
}

void SafetensorsReader::read_box(const std::string& name, const model::Box& box, bool transposed,
                                 float* out) const {
    const Block block = stored_block(box, transposed);
    const bool turned = transposed && box.extent.rank() == 2;
    read_block(name, block, out, turned ? 1 : block.columns, turned ? block.rows : 1);
}

void SafetensorsReader::read_block(const std::string& name, const Block& block, float* out,
                                   std::int64_t row_step, std::int64_t column_step) const {
    const StoredTensor& tensor = header_.tensors.at(name);
    const TensorInfo& info = tensor.info;
    if (info.dtype != "F32" && info.dtype != "F16" && info.dtype != "BF16")
        throw DataError(path_ + ": tensor '" + name_text(name) + "' is " + info.text() +
                        "; weights are read from F32, F16 or BF16. Convert the file.");
    const Block whole = whole_block(info.shape);
    ESCALIER_CHECK(block.elements() == 0 || intersection(block, whole) == block,
                   "a box lies outside " + name);
    checkpoint::read_block(file_.bytes().data() + header_.data_begin + tensor.begin, info.dtype,
                           whole.columns, block, out, row_step, column_step);
}

}  // namespace escalier::checkpoint
