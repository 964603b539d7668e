#include "checkpoint/state.h"

#include "checkpoint/reader.h"

namespace escalier::checkpoint {

const char* state_kind_name(StateKind kind) {
    switch (kind) {
        case StateKind::weight:
            return "weight";
        case StateKind::exp_avg:
            return "exp_avg";
        case StateKind::exp_avg_sq:
            return "exp_avg_sq";
    }
    return "?";
}

std::vector<std::int64_t> stored_shape(const StateTensor& tensor) {
    const Shape& shape = tensor.global_shape;
    if (shape.rank() == 1) return {shape[0]};
    return tensor.transposed ? std::vector{shape[1], shape[0]} : std::vector{shape[0], shape[1]};
}

Block stored_block(const StateTensor& tensor) {
    return stored_block(tensor.box, tensor.transposed);
}

namespace {

void require_tensor(const TensorSource& source, const StateTensor& tensor) {
    const TensorInfo expected{"F32", stored_shape(tensor)};
    const auto found = source.tensors().find(tensor.name);
    if (found == source.tensors().end())
        throw DataError(source.path() + ": tensor '" + tensor.name + "' " + expected.text() +
                        " of the model is missing. The checkpoint must be of this very model.");
    if (found->second.shape != expected.shape)
        throw DataError(source.path() + ": tensor '" + tensor.name + "' is " + found->second.text() +
                        " in the checkpoint, but " + expected.text() +
                        " in the model. Make the model section fit the checkpoint.");
}

}  // namespace

void load_state(const CheckpointReader& reader, const StateList& state, device::Device& device) {
    std::vector<float> staging;
    for (const StateTensor& tensor : state) {
        if (tensor.view.elements() == 0) continue;
        const TensorSource& source = reader.tensors(tensor.kind);
        if (source.tensors().empty() && tensor.kind != StateKind::weight) continue;
        require_tensor(source, tensor);
        if (device.is_host()) {
            source.read_box(tensor.name, tensor.box, tensor.transposed, tensor.view.as<float>());
            continue;
        }
        staging.resize(static_cast<std::size_t>(tensor.view.elements()));
        source.read_box(tensor.name, tensor.box, tensor.transposed, staging.data());
        device.copy_from_host(tensor.view.data(), staging.data(), tensor.view.bytes());
    }
}

}  // namespace escalier::checkpoint
