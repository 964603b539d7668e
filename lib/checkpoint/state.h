// What a checkpoint holds of a rank, as boxes of named global tensors.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "checkpoint/stored_block.h"
#include "core/tensor_view.h"
#include "device/device.h"
#include "model/parameter.h"

namespace escalier::checkpoint {

class CheckpointReader;

enum class StateKind { weight, exp_avg, exp_avg_sq };
inline constexpr std::array all_state_kinds = {StateKind::weight, StateKind::exp_avg, StateKind::exp_avg_sq};
const char* state_kind_name(StateKind kind);  // as the manifest spells it

struct StateTensor {
    std::string name;  // Hugging Face name of the global tensor
    StateKind kind = StateKind::weight;
    Shape global_shape;       // as the model speaks of it: [out, in] for matrices
    bool transposed = false;  // stored as [in, out]
    model::Box box;           // the part that is here
    bool counted = true;      // one rank of a model replica only for each element
    TensorView view;          // f32 in the device's memory, dense, extent of box
};

// All of one rank's: of replicas and tied copies too. Alike on data-parallel ranks of one place.
using StateList = std::vector<StateTensor>;

std::vector<std::int64_t> stored_shape(const StateTensor& tensor);
// The box in stored orientation.
Block stored_block(const StateTensor& tensor);

// Fills all of `state` from a checkpoint of any grid; of a checkpoint without optimizer state (optimizer
// "none") only the weights. Reads nothing but the boxes asked for; holds one of them beside the state.
// Throws DataError, maybe on some ranks only: a tensor missing or of another shape, damage.
void load_state(const CheckpointReader& reader, const StateList& state, device::Device& device);

}  // namespace escalier::checkpoint
