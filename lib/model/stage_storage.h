// Where a stage keeps what its actions leave for later ones, by slot of the program (schedule/program.h) and
// by layer, and what recompute does to it.
#pragma once

#include <cstdint>
#include <vector>

#include "model/block.h"
#include "schedule/program.h"

namespace escalier::model {

// The recompute setting of one stage.
struct RecomputePlan {
    config::Recompute kind = config::Recompute::none;
    std::int64_t every = 1;  // full: layers of one group, of which only the group's input is kept

    bool first_of_group(std::int64_t layer) const { return layer % every == 0; }
    // The last layer of the group that `layer` is in; `layers` in the stage.
    std::int64_t last_of_group(std::int64_t layer, std::int64_t layers) const {
        const std::int64_t last = layer / every * every + every - 1;
        return last < layers ? last : layers - 1;
    }
};

// What a stage is made of, as far as storage goes.
struct StageExtent {
    std::int64_t layers = 0;
    bool has_embedding = false;
    bool has_head = false;
    bool split_backward =
        false;  // the schedule has I and W apart: output gradients wait for W, layer by layer
    RecomputePlan recompute;
};

class StageStorage {
 public:
    // Boundary tensors of an action that this storage lacks come from the executor.
    struct Boundary {
        TensorView input, output, output_gradient, input_gradient;
    };

    // slots_of: a stage of equal layers, recompute and split_backward whose slots this one uses too (null:
    // none); their numbers are then common to both (schedule/share_slots.h).
    StageStorage(const ModelContext& context, const StageExtent& extent,
                 const schedule::StageBuffers& buffers, const StageStorage* slots_of,
                 device::Arena& activations, device::Arena& workspace);

    // The layer's tensors during F, during the input half (of B or I), and during the weight half (of B or
    // W), when what only F and I use may belong to another micro-batch. Layers count from 0 within the stage.
    BlockState forward_state(std::int64_t layer, const schedule::Binding& binding,
                             const Boundary& boundary) const;
    BlockState backward_state(std::int64_t layer, const schedule::Binding& binding,
                              const Boundary& boundary) const;
    BlockState weight_state(std::int64_t layer, const schedule::Binding& binding,
                            const Boundary& boundary) const;

    // Behind the embedding, and the gradient there.
    TensorView embedding_output(const schedule::Binding& binding) const;
    TensorView embedding_gradient(const schedule::Binding& binding) const;
    // Behind the last block of the last stage (lives within F), and its gradient (F to W).
    TensorView head_input() const { return head_input_; }
    TensorView head_gradient(const schedule::Binding& binding) const;

 private:
    struct ForwardSlot {
        TensorView embedding_output;
        std::vector<BlockActivations> layers;
    };
    struct LinearInputSlot {
        TensorView head_gradient;
        std::vector<BlockLinearInputs> layers;
    };
    struct GradientSlot {
        std::vector<BlockOutputGradients> layers;
        std::vector<BlockLinearInputs> recomputed_inputs;  // [layer]
        std::vector<TensorView> residual_gradients;  // [layer]: of the layer's output, but the last layer's
        TensorView spare_residual;   // with B only: the residual gradient that a single layer leaves free
        TensorView bottom_gradient;  // of the embedding's output
    };

    void take_slots(const schedule::StageBuffers& buffers, device::Arena& activations);
    void share_slots(const StageStorage& other);
    void take_ends(device::Arena& activations);  // what only the first and the last stage keep in slots
    ForwardSlot take_forward_slot(device::Arena& activations) const;
    LinearInputSlot take_linear_input_slot(device::Arena& activations) const;
    GradientSlot take_gradient_slot(device::Arena& activations) const;
    bool full() const { return extent_.recompute.kind == config::Recompute::full; }
    TensorView layer_input(std::int64_t layer, const schedule::Binding& binding,
                           const Boundary& boundary) const;
    TensorView layer_output(std::int64_t layer, const schedule::Binding& binding,
                            const Boundary& boundary) const;

    const ModelContext& context_;
    StageExtent extent_;
    std::vector<ForwardSlot> forward_slots_;
    std::vector<LinearInputSlot> linear_input_slots_;
    std::vector<GradientSlot> gradient_slots_;
    // Scratch of one group of layers under recompute: F writes it and forgets, I writes it again and reads.
    std::vector<BlockActivations> recomputed_;
    std::vector<BlockLinearInputs> recomputed_inputs_;
    TensorView head_input_;
};

}  // namespace escalier::model
