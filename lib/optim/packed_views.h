// Several small tensors as one message: copied side by side into a staging buffer and back.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor_view.h"
#include "kernels/ops.h"

namespace escalier::optim {

// Gradients with fewer elements than this travel packed; larger ones are summed in place.
inline constexpr std::int64_t pack_below_elements = 16384;

inline TensorView flat(TensorView view) {
    return view.reshaped({view.elements()});
}

class PackedViews {
 public:
    void add(TensorView view);  // f32
    std::int64_t elements() const { return elements_; }
    bool empty() const { return views_.empty(); }

    // staging: f32, elements() elements.
    void pack(const OpContext& context, const kernels::Ops& ops, TensorView staging) const;
    void unpack(const OpContext& context, const kernels::Ops& ops, TensorView staging) const;

 private:
    std::vector<TensorView> views_;  // flat
    std::int64_t elements_ = 0;
};

}  // namespace escalier::optim
