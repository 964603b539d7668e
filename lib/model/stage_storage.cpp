#include "model/stage_storage.h"

#include <algorithm>

namespace escalier::model {

using config::Recompute;

StageStorage::StageStorage(const ModelContext& context, const StageExtent& extent,
                           const schedule::StageBuffers& buffers, const StageStorage* slots_of,
                           device::Arena& activations, device::Arena& workspace)
    : context_(context), extent_(extent) {
    const ModelShape& s = context.shape;
    if (extent.recompute.kind != Recompute::none) {
        const std::int64_t group = full() ? std::min(extent.recompute.every, extent.layers) : 1;
        for (std::int64_t i = 0; i < group; ++i) {
            recomputed_.push_back(take_activations(workspace, context));
            recomputed_inputs_.push_back(take_linear_inputs(workspace, context));
        }
    }
    if (slots_of)
        share_slots(*slots_of);
    else
        take_slots(buffers, activations);
    take_ends(activations);
    if (extent.has_head) head_input_ = workspace.take(context_.storage, {s.rows, s.hidden});
}

void StageStorage::take_slots(const schedule::StageBuffers& buffers, device::Arena& activations) {
    for (int slot = 0; slot < buffers.forward_slots; ++slot)
        forward_slots_.push_back(take_forward_slot(activations));
    for (int slot = 0; slot < buffers.linear_input_slots; ++slot)
        linear_input_slots_.push_back(take_linear_input_slot(activations));
    const int gradient_slots = std::max(1, buffers.output_gradient_slots);
    for (int slot = 0; slot < gradient_slots; ++slot)
        gradient_slots_.push_back(take_gradient_slot(activations));
}

void StageStorage::share_slots(const StageStorage& other) {
    ESCALIER_CHECK(other.extent_.layers == extent_.layers &&
                       other.extent_.recompute.kind == extent_.recompute.kind &&
                       other.extent_.split_backward == extent_.split_backward,
                   "stages of unlike sizes cannot share slots");
    forward_slots_ = other.forward_slots_;
    linear_input_slots_ = other.linear_input_slots_;
    gradient_slots_ = other.gradient_slots_;
}

void StageStorage::take_ends(device::Arena& activations) {
    const Shape residual = {context_.shape.rows, context_.shape.hidden};
    if (extent_.has_head)
        for (LinearInputSlot& slot : linear_input_slots_)
            slot.head_gradient = activations.take(context_.storage, residual);
    if (!extent_.has_embedding) return;
    for (ForwardSlot& slot : forward_slots_)
        slot.embedding_output = activations.take(context_.storage, residual);
    // Layer 0's input gradient must not alias its output gradient, which W still reads.
    for (GradientSlot& slot : gradient_slots_)
        slot.bottom_gradient =
            extent_.split_backward ? activations.take(context_.storage, residual) : slot.spare_residual;
}

StageStorage::ForwardSlot StageStorage::take_forward_slot(device::Arena& activations) const {
    const ModelShape& s = context_.shape;
    const Shape residual = {s.rows, s.hidden};
    ForwardSlot slot;
    for (std::int64_t layer = 0; layer < extent_.layers; ++layer) {
        const bool last = layer + 1 == extent_.layers;  // its output is a boundary tensor
        BlockActivations a;
        if (full()) {
            if (!last && layer == extent_.recompute.last_of_group(layer, extent_.layers))
                a.output = activations.take(context_.storage, residual);
        } else {
            a = take_activations(activations, context_, !last, extent_.recompute.kind == Recompute::none);
        }
        slot.layers.push_back(a);
    }
    return slot;
}

StageStorage::LinearInputSlot StageStorage::take_linear_input_slot(device::Arena& activations) const {
    LinearInputSlot slot;
    for (std::int64_t layer = 0; layer < extent_.layers && !full(); ++layer)
        slot.layers.push_back(
            take_linear_inputs(activations, context_, extent_.recompute.kind == Recompute::none));
    return slot;
}

StageStorage::GradientSlot StageStorage::take_gradient_slot(device::Arena& activations) const {
    const ModelShape& s = context_.shape;
    const Shape residual = {s.rows, s.hidden};
    GradientSlot slot;
    // With B, a layer's gradients are used up before the next layer starts: one set serves all layers, and
    // the residual gradients alternate between two buffers.
    const auto count = [&](std::int64_t shared) { return extent_.split_backward ? extent_.layers : shared; };
    std::vector<BlockOutputGradients> gradients;
    for (std::int64_t i = 0; i < count(1); ++i)
        gradients.push_back(take_output_gradients(activations, context_));
    std::vector<TensorView> residuals;
    for (std::int64_t i = 0; i < count(2); ++i)
        residuals.push_back(activations.take(context_.storage, residual));
    std::vector<BlockLinearInputs> inputs;
    if (extent_.recompute.kind == Recompute::attention) {
        for (std::int64_t i = 0; i < count(1); ++i)
            inputs.push_back({{}, activations.take(context_.storage, {s.rows, s.attention_width()}), {}, {}});
    } else if (full() && extent_.split_backward) {
        for (std::int64_t i = 0; i < extent_.layers; ++i)
            inputs.push_back(take_linear_inputs(activations, context_));
    }
    for (std::int64_t layer = 0; layer < extent_.layers; ++layer) {
        const auto at = [&](std::int64_t shared) { return static_cast<std::size_t>(layer % count(shared)); };
        slot.layers.push_back(gradients[at(1)]);
        slot.residual_gradients.push_back(residuals[at(2)]);
        if (!inputs.empty()) slot.recomputed_inputs.push_back(inputs[at(1)]);
    }
    if (!extent_.split_backward) slot.spare_residual = residuals[1];
    return slot;
}

TensorView StageStorage::layer_input(std::int64_t layer, const schedule::Binding& binding,
                                     const Boundary& boundary) const {
    if (layer > 0) return layer_output(layer - 1, binding, boundary);
    return extent_.has_embedding ? embedding_output(binding) : boundary.input;
}

TensorView StageStorage::layer_output(std::int64_t layer, const schedule::Binding& binding,
                                      const Boundary& boundary) const {
    if (layer + 1 == extent_.layers) return extent_.has_head ? head_input_ : boundary.output;
    if (full() && layer != extent_.recompute.last_of_group(layer, extent_.layers))
        return recomputed_[static_cast<std::size_t>(layer % extent_.recompute.every)].output;
    return forward_slots_[static_cast<std::size_t>(binding.forward_slot)]
        .layers[static_cast<std::size_t>(layer)]
        .output;
}

BlockState StageStorage::forward_state(std::int64_t layer, const schedule::Binding& binding,
                                       const Boundary& boundary) const {
    const auto at = static_cast<std::size_t>(layer);
    BlockState state;
    state.input = layer_input(layer, binding, boundary);
    state.output = layer_output(layer, binding, boundary);
    if (full()) {
        const auto in_group = static_cast<std::size_t>(layer % extent_.recompute.every);
        state.a = recomputed_[in_group];
        state.x = recomputed_inputs_[in_group];
        return state;
    }
    state.a = forward_slots_[static_cast<std::size_t>(binding.forward_slot)].layers[at];
    state.x = linear_input_slots_[static_cast<std::size_t>(binding.linear_input_slot)].layers[at];
    if (extent_.recompute.kind == Recompute::attention) {
        state.a.lse = recomputed_[0].lse;
        state.x.attention = recomputed_inputs_[0].attention;
    }
    return state;
}

BlockState StageStorage::backward_state(std::int64_t layer, const schedule::Binding& binding,
                                        const Boundary& boundary) const {
    const GradientSlot& slot = gradient_slots_[static_cast<std::size_t>(binding.output_gradient_slot)];
    const BlockState weights = weight_state(layer, binding, boundary);
    BlockState state = forward_state(layer, binding, boundary);
    state.x = weights.x;
    state.g = weights.g;
    state.doutput = weights.doutput;
    state.dinput = layer > 0               ? slot.residual_gradients[static_cast<std::size_t>(layer - 1)]
                   : extent_.has_embedding ? slot.bottom_gradient
                                           : boundary.input_gradient;
    return state;
}

BlockState StageStorage::weight_state(std::int64_t layer, const schedule::Binding& binding,
                                      const Boundary& boundary) const {
    const auto at = static_cast<std::size_t>(layer);
    const GradientSlot& slot = gradient_slots_[static_cast<std::size_t>(binding.output_gradient_slot)];
    BlockState state;
    if (!full()) {
        state.x = linear_input_slots_[static_cast<std::size_t>(binding.linear_input_slot)].layers[at];
        if (extent_.recompute.kind == Recompute::attention)
            state.x.attention = slot.recomputed_inputs[at].attention;
    } else {
        state.x = extent_.split_backward
                      ? slot.recomputed_inputs[at]
                      : recomputed_inputs_[static_cast<std::size_t>(layer % extent_.recompute.every)];
    }
    state.g = slot.layers[at];
    const bool last = layer + 1 == extent_.layers;
    state.doutput = !last              ? slot.residual_gradients[at]
                    : extent_.has_head ? head_gradient(binding)
                                       : boundary.output_gradient;
    return state;
}

TensorView StageStorage::embedding_output(const schedule::Binding& binding) const {
    return forward_slots_[static_cast<std::size_t>(binding.forward_slot)].embedding_output;
}

TensorView StageStorage::embedding_gradient(const schedule::Binding& binding) const {
    return gradient_slots_[static_cast<std::size_t>(binding.output_gradient_slot)].bottom_gradient;
}

TensorView StageStorage::head_gradient(const schedule::Binding& binding) const {
    return linear_input_slots_[static_cast<std::size_t>(binding.linear_input_slot)].head_gradient;
}

}  // namespace escalier::model
