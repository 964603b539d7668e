// The registry: all that the optimizer, the norm, checkpoints, the plan and verify read about a rank's
// parameters.
//
// An entry is a box of a named global tensor. A fused weight (query, key, value in one product) is several
// entries whose views lie side by side, so that every entry is a plain box under its Hugging Face name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/compute_pool.h"
#include "core/tensor_view.h"
#include "device/device.h"

namespace escalier::model {

struct Box {  // of a matrix or (one axis) a vector
    Shape offset;
    Shape extent;
};

enum class Init {
    normal,           // N(0, 0.02)
    normal_residual,  // N(0, 0.02 / sqrt(2 L)): the last linear of a residual branch (Radford et al. 2019)
    ones,
    zeros
};

// Which ranks of the tensor group hold the same box.
enum class Replicas {
    none,    // sharded: every rank has a box of its own
    tp,      // every tensor rank holds it, and computes the whole gradient
    tp_sum,  // every tensor rank holds it, and computes a part of the gradient: sum over tp
    kv_sum   // shared by the ranks of the kv group, each with a part of the gradient: sum over kv
};

struct Parameter {
    std::string name;    // Hugging Face name of the global tensor
    Shape global_shape;  // [out, in] for matrices, logical (vocabulary unpadded)
    Box box;             // the part that is here; rows beyond global_shape (vocabulary padding) are not in it
    bool transposed_in_hf = false;  // GPT-2's Conv1D stores [in, out]
    int global_index =
        0;  // place in the list of the whole model's entries, the same on every grid: order of the norm
    int stage = 0;
    Init init = Init::normal;
    bool decay = false;  // weight decay: matrices only
    Replicas replicas = Replicas::none;
    bool counted = true;  // by the norm and exports, on this rank: one rank only for each element
    int tie_group = -1;   // entries of equal tie group are one logical tensor with one gradient
    TensorView weight;    // f32, dense, extent of box (padding rows of a vocabulary lie behind it)
    TensorView gradient;  // main gradient, f32
    TensorView shadow;  // the weight in the type that products read, where that is another; else without data
};

using ParameterList = std::vector<Parameter>;

// global_index lies in [0, count_global_entries(L)), on every grid.
int count_global_entries(std::int64_t num_layers);

// Fills every weight with its initial values: functions of (seed, name, global element), whatever the grid.
void initialize(const ParameterList& parameters, std::uint64_t seed, std::int64_t num_layers,
                ComputePool& pool, device::Device& device);

}  // namespace escalier::model
