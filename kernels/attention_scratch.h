// The scratch of CUDA attention's backward pass: delta, one float for each row of each head.
#pragma once

#include <cstddef>
#include <cstdint>

namespace escalier::kernels::cuda {

constexpr std::size_t attention_scratch_bytes(std::int64_t rows, std::int64_t heads) {
    return static_cast<std::size_t>(rows * heads) * sizeof(float);
}

}  // namespace escalier::kernels::cuda
