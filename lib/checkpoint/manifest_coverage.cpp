#include <algorithm>
#include <set>

#include "checkpoint/manifest_fields.h"

namespace escalier::checkpoint {

namespace {

std::string fault_of(const std::string& name, const ManifestTensor& tensor, StateKind kind) {
    const std::string what = std::string(state_kind_name(kind)) + " of tensor '" + name + "'";
    std::vector<Block> blocks;
    std::int64_t elements = 0;
    for (const ManifestPiece& piece : tensor.of(kind)) {
        blocks.push_back(piece.block);
        if (__builtin_add_overflow(elements, piece.block.elements(), &elements))
            return "the pieces of " + what + " overlap";
    }
    std::sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) {
        return std::pair(a.row, a.column) < std::pair(b.row, b.column);
    });
    // Only those that begin within the rows of one can overlap it.
    for (std::size_t i = 0; i < blocks.size(); ++i)
        for (std::size_t j = i + 1; j < blocks.size() && blocks[j].row < blocks[i].row + blocks[i].rows; ++j)
            if (intersection(blocks[i], blocks[j])) return "the pieces of " + what + " overlap";
    if (elements != whole_block(tensor.shape).elements())
        return "the pieces of " + what + " leave parts of it out";
    return "";
}

}  // namespace

std::string coverage_fault(const Manifest& manifest) {
    std::set<std::pair<std::size_t, std::string>> keys;
    for (const auto& [name, tensor] : manifest.tensors)
        for (const StateKind kind : all_state_kinds) {
            const bool expected = kind == StateKind::weight || manifest.run.optimizer == "adamw";
            if (tensor.of(kind).empty() && !expected) continue;
            if (!expected)
                return std::string(state_kind_name(kind)) + " of tensor '" + name +
                       "' is there, but the optimizer is " + manifest.run.optimizer;
            const std::string fault = fault_of(name, tensor, kind);
            if (!fault.empty()) return fault;
            for (const ManifestPiece& piece : tensor.of(kind))
                if (!keys.emplace(piece.file, piece.key).second)
                    return "the pieces of tensor '" + name + "' use the key '" + piece.key + "' twice";
        }
    return "";
}

}  // namespace escalier::checkpoint
