#include "train/read_rows.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/bfloat16.h"

namespace escalier::train {

void read_rows(device::Device* device, TensorView view, std::int64_t first, std::int64_t count, float* out) {
    const TensorView part = view.rows(first, count);
    const auto copy = [&](void* to) {
        if (device)
            device->copy_to_host(to, part.data(), part.bytes());
        else
            std::memcpy(to, part.data(), part.bytes());
    };
    if (part.elements() == 0) return;
    if (part.dtype() == DType::f32) return copy(out);
    ESCALIER_CHECK(part.dtype() == DType::bf16, "tensors to compare are f32 or bf16");
    std::vector<BFloat16> narrow(static_cast<std::size_t>(part.elements()));
    copy(narrow.data());
    std::transform(narrow.begin(), narrow.end(), out, [](BFloat16 value) { return to_float(value); });
}

}  // namespace escalier::train
