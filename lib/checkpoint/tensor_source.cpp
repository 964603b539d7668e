#include "checkpoint/tensor_source.h"

#include <algorithm>

#include "core/text.h"

namespace escalier::checkpoint {

std::string TensorInfo::text() const {
    constexpr std::size_t most_axes = 8;
    std::string out = dtype + " [";
    for (std::size_t axis = 0; axis < std::min(shape.size(), most_axes); ++axis)
        out += (axis ? ", " : "") + std::to_string(shape[axis]);
    return out + (shape.size() > most_axes ? ", ...]" : "]");
}

std::string name_text(const std::string& name) {
    return shortened(name, 100);
}

}  // namespace escalier::checkpoint
