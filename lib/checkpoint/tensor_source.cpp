#include "checkpoint/tensor_source.h"

namespace escalier::checkpoint {

std::string TensorInfo::text() const {
    std::string out = dtype + " [";
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
        out += (axis ? ", " : "") + std::to_string(shape[axis]);
    return out + "]";
}

}  // namespace escalier::checkpoint
