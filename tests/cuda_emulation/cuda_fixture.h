// What every test of a CUDA op needs: a context on the emulated device, guarded device memory, storage types
// and their rounding, comparison with a reference.
#pragma once

#include <gtest/gtest.h>

#include "core/bfloat16.h"
#include "cuda_emulation/random.h"
#include "kernels/common/cuda_check.h"
#include "kernels/common/cuda_queue.h"
#include "tests/unit/kernels/op_harness.h"

namespace escalier::kernels::test {

// Device memory between two guard blocks. Memory and guards start as NaN, of whatever type they are read as:
// what an op forgets to write, or reads beside its tensors, shows in the result.
class DeviceTensor {
 public:
    DeviceTensor(DType dtype, Shape shape) : dtype_(dtype), shape_(shape) {
        const std::vector<unsigned char> nan(2 * guard + bytes(), 0xFF);
        void* memory = nullptr;
        cuda::check_cuda(cudaMalloc(&memory, nan.size()), "cudaMalloc");
        memory_ = static_cast<unsigned char*>(memory);
        cuda::check_cuda(cudaMemcpy(memory_, nan.data(), nan.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
    }
    // Each value rounded to the type.
    DeviceTensor(DType dtype, Shape shape, const Floats& values) : DeviceTensor(dtype, shape) {
        EXPECT_EQ(static_cast<std::int64_t>(values.size()), shape.elements());
        std::vector<BFloat16> halves;
        for (std::size_t i = 0; dtype == DType::bf16 && i < values.size(); ++i)
            halves.push_back(to_bfloat16(values[i]));
        const void* from = dtype == DType::bf16 ? static_cast<const void*>(halves.data()) : values.data();
        cuda::check_cuda(cudaMemcpy(memory_ + guard, from, bytes(), cudaMemcpyHostToDevice), "cudaMemcpy");
    }
    // Elements as they are: ids, double sums.
    template <class T>
    DeviceTensor(Shape shape, const std::vector<T>& elements) : DeviceTensor(dtype_of<T>(), shape) {
        EXPECT_EQ(static_cast<std::int64_t>(elements.size()), shape.elements());
        cuda::check_cuda(cudaMemcpy(memory_ + guard, elements.data(), bytes(), cudaMemcpyHostToDevice),
                         "cudaMemcpy");
    }
    DeviceTensor(const DeviceTensor&) = delete;
    DeviceTensor& operator=(const DeviceTensor&) = delete;
    ~DeviceTensor() {
        const std::vector<unsigned char> now = download(0, 2 * guard + bytes());
        for (std::size_t i = 0; i < now.size(); ++i)
            if ((i < guard || i >= guard + bytes()) && now[i] != 0xFF) {
                ADD_FAILURE() << "a guard block of a device tensor " << shape_.text() << " was overwritten";
                break;
            }
        cudaFree(memory_);
    }

    TensorView view() const { return TensorView(memory_ + guard, dtype_, shape_); }
    // All elements, once the device is done. f32 or bf16.
    Floats values() const {
        if (dtype_ != DType::bf16) return elements<float>();
        Floats out;
        for (const BFloat16 half : elements<BFloat16>()) out.push_back(to_float(half));
        return out;
    }
    // The same of other types than the storage of activations.
    template <class T>
    std::vector<T> elements() const {
        EXPECT_EQ(dtype_, dtype_of<T>());
        const std::vector<unsigned char> raw = download(guard, bytes());
        std::vector<T> out(static_cast<std::size_t>(shape_.elements()));
        if (!out.empty()) std::memcpy(out.data(), raw.data(), raw.size());
        return out;
    }

 private:
    static constexpr std::size_t guard = 512;

    std::size_t bytes() const { return static_cast<std::size_t>(shape_.elements()) * size_of(dtype_); }
    std::vector<unsigned char> download(std::size_t begin, std::size_t count) const {
        std::vector<unsigned char> out(count);
        cuda::check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
        cuda::check_cuda(cudaMemcpy(out.data(), memory_ + begin, count, cudaMemcpyDeviceToHost),
                         "cudaMemcpy");
        return out;
    }

    DType dtype_;
    Shape shape_;
    unsigned char* memory_ = nullptr;
};

// A device queue with scratch of exactly so many bytes, and the context over both.
class CudaRunner {
 public:
    explicit CudaRunner(std::size_t scratch_bytes = 0)
        : pool_(1),
          scratch_(DType::u8, Shape{static_cast<std::int64_t>(scratch_bytes)}),
          context_(pool_, scratch_.view().data(), scratch_bytes, queue_) {
        queue_.multiprocessors = 4;
    }
    operator const OpContext&() const { return context_; }  // NOLINT(google-explicit-constructor)
    DeviceQueue& queue() { return queue_; }

 private:
    ComputePool pool_;
    DeviceTensor scratch_;
    DeviceQueue queue_;
    OpContext context_;
};

// What a tensor of this type holds after it was given these values.
inline Floats stored(DType dtype, Floats values) {
    if (dtype == DType::bf16)
        for (float& value : values) value = to_float(to_bfloat16(value));
    return values;
}

// Rounds as storage does: the tolerance grows by one rounding to the type.
struct StorageRounding {
    DType dtype = DType::f32;

    Tracked operator()(Tracked x) const {
        constexpr double bf16_roundoff = 0x1p-9 / 0x1p-24;  // in the units of Tracked
        if (dtype == DType::bf16) x.error += bf16_roundoff * std::abs(x.value);
        return x;
    }
    Numbers<Tracked> operator()(Numbers<Tracked> all) const {
        for (Tracked& x : all) x = (*this)(x);
        return all;
    }
};

// Against the reference, and against the fp32 CPU twin, which may be off by the same bound.
inline void expect_near_both(const Floats& actual, const Floats& twin, const Numbers<Tracked>& expected,
                             const char* what) {
    expect_near(actual, expected, what);
    ASSERT_EQ(actual.size(), twin.size()) << what;
    for (std::size_t i = 0; i < actual.size(); ++i)
        ASSERT_TRUE(std::abs(actual[i] - twin[i]) <= 2 * expected[i].tolerance())
            << what << "[" << i << "] is " << actual[i] << ", of the CPU twin " << twin[i];
}

// run() yields all outputs of an op, laid end to end: the same bits whatever the order of threads and blocks,
// and when it runs again.
template <class Run>
void expect_same_bits_in_any_order(Run run) {
    const std::uint64_t kept = cuda_emulation::seed();
    cuda_emulation::set_seed(0);
    const Floats in_order = run();
    for (const std::uint64_t seed : {1, 2, 2, 3}) {
        cuda_emulation::set_seed(seed);
        expect_same_bits(in_order, run(), "another order of threads");
    }
    cuda_emulation::set_seed(kept);
}

inline const char* name_of(DType dtype) {
    return dtype == DType::bf16 ? "bf16" : "f32";
}

}  // namespace escalier::kernels::test
