// Named global tensors that can be read in boxes, whatever files hold them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/parameter.h"

namespace escalier::checkpoint {

// A tensor as it is stored: Hugging Face name and orientation.
struct TensorInfo {
    std::string dtype;  // as safetensors spells it: "F32", "BF16", …
    std::vector<std::int64_t> shape;

    std::string text() const;  // "F32 [50257, 768]"; of more than eight extents the first eight
};

// A tensor's name that came from a file, for a message: its first 100 bytes, what is not printable as '?'.
std::string name_text(const std::string& name);

class TensorSource {
 public:
    virtual ~TensorSource() = default;
    virtual const std::string& path() const = 0;  // file or folder, for messages
    virtual const std::map<std::string, TensorInfo>& tensors() const = 0;

    // The part `box` of a vector or matrix as f32, dense, extent of box. transposed: stored as [columns,
    // rows] of what box speaks of. Reads F32, F16 and BF16. Throws DataError for other types and for damage
    // that shows only now.
    virtual void read_box(const std::string& name, const model::Box& box, bool transposed,
                          float* out) const = 0;
};

}  // namespace escalier::checkpoint
