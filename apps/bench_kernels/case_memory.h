// Tensors of a backend, filled with the same numbers on every backend.
#pragma once

#include <memory>
#include <vector>

#include "core/tensor_view.h"
#include "device/device.h"

namespace escalier::bench {

enum class Contents {
    signed_numbers,    // in [-0.5, 0.5)
    positive_numbers,  // in (0, 1]
    zeros
};

class CaseMemory {
 public:
    explicit CaseMemory(device::Device& device) : device_(device) {}
    CaseMemory(const CaseMemory&) = delete;
    CaseMemory& operator=(const CaseMemory&) = delete;
    ~CaseMemory();

    // The values depend on the element and on how many tensors with numbers were taken before. They are
    // multiples of 1/256 below 1, which bf16 and fp32 hold alike. i32 and u64 tensors are for take_ids() and
    // take_number().
    TensorView take(DType dtype, Shape shape, Contents contents = Contents::signed_numbers);
    TensorView take_ids(std::int64_t count, std::int64_t below);  // i32
    TensorView take_number(double value);                         // f32 [1]
    TensorView take_count(std::uint64_t value);                   // u64 [1]

 private:
    TensorView allocate(DType dtype, Shape shape);
    void fill(const TensorView& view, const void* values, std::size_t bytes);

    struct Block {
        void* data;
        std::size_t bytes;
    };
    device::Device& device_;
    std::vector<Block> blocks_;
    std::uint64_t filled_ = 0;
};

}  // namespace escalier::bench
