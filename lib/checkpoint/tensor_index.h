// Which pieces of which global tensor lie on which rank of one model replica.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "model/parameter.h"

namespace escalier::checkpoint {

struct Piece {
    int rank = 0;   // in the model group
    int entry = 0;  // in that rank's parameter list
    model::Box box;
};

struct GlobalTensor {
    Shape shape;              // as the model speaks of it: [out, in] for matrices
    bool transposed = false;  // stored as [in, out]
    std::vector<Piece> pieces;

    Shape stored_shape() const { return transposed && shape.rank() == 2 ? Shape{shape[1], shape[0]} : shape; }
};

using TensorIndex = std::map<std::string, GlobalTensor>;

// From the counted entries of all ranks, so each element is there once; the same on every rank. Collective.
// Throws InternalError unless the pieces of every tensor cover it exactly.
TensorIndex gather_tensor_index(const model::ParameterList& parameters, comm::Communicator& model_group);

}  // namespace escalier::checkpoint
