// Storage types: 16-byte vectors of them, conversions to and from fp32, and typed pointers of tensor views.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/check.h"
#include "core/tensor_view.h"
#include "kernels/common/cuda_platform.h"

namespace escalier::kernels::cuda {

__device__ __forceinline__ float to_float(float x) {
    return x;
}
__device__ __forceinline__ float to_float(__nv_bfloat16 x) {
    return __bfloat162float(x);
}

// Rounds to nearest even.
template <class T>
__device__ __forceinline__ T from_float(float x) {
    if constexpr (std::is_same_v<T, float>)
        return x;
    else
        return __float2bfloat16_rn(x);
}

// 16 bytes of T, moved by one instruction; addresses are 16-byte aligned.
template <class T>
struct alignas(16) Vector {
    static constexpr int size = 16 / static_cast<int>(sizeof(T));
    T lanes[size];

    __device__ __forceinline__ T& operator[](int i) { return lanes[i]; }
    __device__ __forceinline__ const T& operator[](int i) const { return lanes[i]; }

    static __device__ __forceinline__ Vector load(const T* from) { return of(load16(from)); }
    __device__ __forceinline__ void store(T* to) const { store16(to, bits()); }
    // For what is touched once: marked to leave the caches first.
    static __device__ __forceinline__ Vector load_streaming(const T* from) {
        return of(__ldcs(reinterpret_cast<const uint4*>(from)));
    }
    __device__ __forceinline__ void store_streaming(T* to) const {
        __stcs(reinterpret_cast<uint4*>(to), bits());
    }

 private:
    static __device__ __forceinline__ Vector of(uint4 bits) {
        Vector out;
        memcpy(static_cast<void*>(&out), &bits, sizeof bits);
        return out;
    }
    __device__ __forceinline__ uint4 bits() const {
        uint4 out;
        memcpy(&out, static_cast<const void*>(this), sizeof out);
        return out;
    }
};

// Host: the view's memory as the device's element type; another dtype is an InternalError.
template <class T>
T* data_as(const TensorView& view) {
    if constexpr (std::is_same_v<T, __nv_bfloat16>) {
        ESCALIER_CHECK(view.dtype() == DType::bf16, "view holds another element type");
        return static_cast<T*>(view.data());
    } else {
        return view.as<T>();
    }
}

// Host: f.operator()<T>(), or f(T{}), with T the storage type that `dtype` names.
template <class F>
void dispatch_storage(DType dtype, F&& f) {
    const auto call = [&]<class T>(T zero) {
        if constexpr (requires { f.template operator()<T>(); })
            f.template operator()<T>();
        else
            f(zero);
    };
    ESCALIER_CHECK(dtype == DType::f32 || dtype == DType::bf16, "storage is f32 or bf16");
    if (dtype == DType::f32)
        call(float{});
    else
        call(__nv_bfloat16{});
}

}  // namespace escalier::kernels::cuda
