// Memory for tests between two guard blocks: whoever writes outside fails the test that owns the buffer.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "core/tensor_view.h"

namespace escalier::harness {

template <class T>
class GuardedBuffer {
 public:
    // Filled with NaN (floating point) or zero (integers).
    explicit GuardedBuffer(Shape shape) : shape_(shape) {
        const std::size_t payload = static_cast<std::size_t>(shape.elements()) * sizeof(T);
        const std::size_t bytes = (payload + 2 * guard + alignment - 1) / alignment * alignment;
        memory_.reset(static_cast<unsigned char*>(std::aligned_alloc(alignment, bytes)));
        std::memset(memory_.get(), canary, bytes);
        size_ = bytes;
        std::fill(begin(), end(), std::numeric_limits<T>::quiet_NaN());
    }
    GuardedBuffer(Shape shape, const std::vector<T>& values) : GuardedBuffer(shape) {
        EXPECT_EQ(static_cast<std::int64_t>(values.size()), shape.elements());
        std::copy(values.begin(), values.end(), begin());
    }
    GuardedBuffer(GuardedBuffer&&) = default;
    ~GuardedBuffer() {
        if (memory_ && !intact())
            ADD_FAILURE() << "a guard block of a buffer " << shape_.text() << " was overwritten";
    }

    TensorView view() { return TensorView(begin(), dtype_of<T>(), shape_); }
    T* begin() { return reinterpret_cast<T*>(memory_.get() + guard); }
    T* end() { return begin() + shape_.elements(); }
    T& operator[](std::int64_t index) { return begin()[index]; }
    std::vector<T> values() { return std::vector<T>(begin(), end()); }

    bool intact() const {
        const auto is_canary = [](unsigned char byte) { return byte == canary; };
        const unsigned char* memory = memory_.get();
        const std::size_t payload = static_cast<std::size_t>(shape_.elements()) * sizeof(T);
        return std::all_of(memory, memory + guard, is_canary) &&
               std::all_of(memory + guard + payload, memory + size_, is_canary);
    }

 private:
    static constexpr std::size_t alignment = 256;  // as in an arena
    static constexpr std::size_t guard = 512;
    static constexpr unsigned char canary = 0xA5;
    struct Free {
        void operator()(unsigned char* memory) const { std::free(memory); }
    };

    Shape shape_;
    std::size_t size_ = 0;
    std::unique_ptr<unsigned char, Free> memory_;
};

}  // namespace escalier::harness
