#include "checkpoint/weights.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <span>
#include <vector>

#include "checkpoint/tensor_index.h"

namespace escalier::checkpoint {

namespace {

std::int64_t largest_piece(const TensorIndex& index) {
    std::int64_t largest = 0;
    for (const auto& [name, tensor] : index)
        for (const Piece& piece : tensor.pieces) largest = std::max(largest, piece.box.extent.elements());
    return largest;
}

// Puts a dense piece at its place in the stored form of the whole tensor.
void place(const GlobalTensor& tensor, const model::Box& box, const float* piece, float* whole) {
    const bool matrix = tensor.shape.rank() == 2;
    const std::int64_t rows = box.extent[0], columns = matrix ? box.extent[1] : 1;
    const std::int64_t first_row = box.offset[0], first_column = matrix ? box.offset[1] : 0;
    const std::int64_t all_rows = tensor.shape[0], all_columns = matrix ? tensor.shape[1] : 1;
    for (std::int64_t row = 0; row < rows; ++row) {
        const float* from = piece + row * columns;
        if (!tensor.transposed) {
            std::copy(from, from + columns, whole + (first_row + row) * all_columns + first_column);
            continue;
        }
        for (std::int64_t column = 0; column < columns; ++column)
            whole[(first_column + column) * all_rows + first_row + row] = from[column];
    }
}

// Assembles tensor after tensor on rank 0 of the model group.
class Gatherer {
 public:
    Gatherer(const model::ParameterList& parameters, comm::Communicator& group, device::Device& device,
             std::int64_t largest)
        : parameters_(parameters),
          group_(group),
          device_(device),
          piece_(static_cast<std::size_t>(largest)) {}

    // Takes what holds one whole tensor, on the rank that does.
    void reserve(const TensorIndex& index) {
        std::int64_t largest = 0;
        for (const auto& [name, tensor] : index) largest = std::max(largest, tensor.shape.elements());
        whole_.resize(static_cast<std::size_t>(largest));
    }

    // Collective. The whole tensor as stored where `assembles` and reserved for, nothing elsewhere.
    std::span<const float> gather(const std::string& name, const GlobalTensor& tensor, bool assembles) {
        const std::string label = "gathering " + name;
        for (const Piece& piece : tensor.pieces) {
            const TensorView view(piece_.data(), DType::f32, {piece.box.extent.elements()});
            if (piece.rank == group_.rank())
                device_.copy_to_host(view.data(),
                                     parameters_[static_cast<std::size_t>(piece.entry)].weight.data(),
                                     view.bytes());
            if (group_.size() > 1) group_.broadcast(view, piece.rank, label.c_str());
            if (assembles) place(tensor, piece.box, piece_.data(), whole_.data());
        }
        if (!assembles) return {};
        return std::span<const float>(whole_).first(static_cast<std::size_t>(tensor.shape.elements()));
    }

 private:
    const model::ParameterList& parameters_;
    comm::Communicator& group_;
    device::Device& device_;
    std::vector<float> piece_;
    std::vector<float> whole_;
};

}  // namespace

void save_weights(const std::string& path, const model::ParameterList& parameters,
                  const parallel::Groups& groups, device::Device& device, const Metadata& metadata) {
    comm::Communicator& group = *groups.model;
    const TensorIndex index = gather_tensor_index(parameters, group);
    if (groups.place.dp_rank != 0) {  // keeps step, so that no wait grows with the size of the model
        for (const auto& [name, tensor] : index) groups.dp->barrier(("writing of " + name).c_str());
        return;
    }
    Gatherer gatherer(parameters, group, device, largest_piece(index));

    // After a failure rank 0 keeps receiving, or the others would wait for it.
    std::optional<SafetensorsWriter> writer;
    std::exception_ptr failure;
    const auto try_to = [&](auto&& action) {
        if (group.rank() != 0 || failure) return;
        try {
            action();
        } catch (const std::exception&) {
            failure = std::current_exception();
        }
    };
    try_to([&] {
        std::map<std::string, Shape> shapes;
        for (const auto& [name, tensor] : index) shapes[name] = tensor.stored_shape();
        gatherer.reserve(index);
        writer.emplace(path, shapes, metadata);
    });
    for (const auto& [name, tensor] : index) {
        const bool assembles = group.rank() == 0 && !failure;
        const std::span<const float> whole = gatherer.gather(name, tensor, assembles);
        try_to([&] { writer->append(whole); });
        groups.dp->barrier(("writing of " + name).c_str());
    }
    try_to([&] { writer->finish(); });
    if (failure) std::rethrow_exception(failure);
}

void check_model(const TensorSource& source, const model::ParameterList& parameters,
                 comm::Communicator& model_group) {
    const TensorIndex index = gather_tensor_index(parameters, model_group);
    for (const auto& [name, tensor] : index) {
        const auto stored = source.tensors().find(name);
        const Shape expected = tensor.stored_shape();
        if (stored == source.tensors().end())
            throw DataError(source.path() + ": tensor '" + name + "' " + expected.text() +
                            " of the model is missing. The file must hold the weights of this very model.");
        const std::vector<std::int64_t>& shape = stored->second.shape;
        bool equal = static_cast<int>(shape.size()) == expected.rank();
        for (int axis = 0; equal && axis < expected.rank(); ++axis)
            equal = shape[static_cast<std::size_t>(axis)] == expected[axis];
        if (!equal)
            throw DataError(source.path() + ": tensor '" + name + "' is " + stored->second.text() +
                            " in the file, but " + expected.text() +
                            " in the model. Make the model section fit the file.");
    }
    for (const auto& [name, stored] : source.tensors())
        if (!index.contains(name))
            throw DataError(source.path() + ": tensor '" + name_text(name) + "' " + stored.text() +
                            " has no place in the model. Make the model section fit the file.");
}

void load_weights(const TensorSource& source, const model::ParameterList& parameters,
                  const parallel::Groups& groups, device::Device& device) {
    check_model(source, parameters, *groups.model);
    std::vector<float> box;
    for (const model::Parameter& parameter : parameters) {
        if (parameter.weight.elements() == 0) continue;
        box.resize(static_cast<std::size_t>(parameter.weight.elements()));
        source.read_box(parameter.name, parameter.box, parameter.transposed_in_hf, box.data());
        device.copy_from_host(parameter.weight.data(), box.data(), parameter.weight.bytes());
    }
}

}  // namespace escalier::checkpoint
