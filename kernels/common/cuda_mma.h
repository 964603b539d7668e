// Tensor-core products and the asynchronous copies that feed them, for sm_80 and later. Each wrapper is one
// PTX instruction (PTX ISA, "Warp-level matrix instructions" and "Data movement: cp.async"); its twin in
// tests/cuda_emulation/instructions.h has the documented layout of lanes.
//
//   cp_async16(shared, global, valid)  16 bytes, both ends 16-byte aligned; zeros when not valid
//   cp_async_commit(), cp_async_wait<N>()  until at most N of this thread's latest groups are unfinished
//   ldmatrix_x4(r, row)   four 8x8 matrices of 16-bit elements; lane l gives the address of row l%8 of matrix
//                         l/8 and gets of matrix i in r[i] the elements (l/4, 2(l%4)) and (l/4, 2(l%4)+1)
//   ldmatrix_x4_trans     the same, transposed: (2(l%4), l/4) and (2(l%4)+1, l/4)
//   ldmatrix_x2, _trans   two matrices; lanes 0 to 15 give the addresses
//   mma_bf16(c, a, b)     c[16,8] += a[16,16] b[16,8]. With g = l/4 and t = l%4, each register two elements:
//                         a: (g, 2t) (g+8, 2t) (g, 2t+8) (g+8, 2t+8); b: (2t, g) (2t+8, g), rows 2t and 2t+1;
//                         c: (g, 2t) (g, 2t+1) (g+8, 2t) (g+8, 2t+1)
//   fast_exp2(x)          2^x by the special-function unit, relative error below 2^-22
#pragma once

#include <cstdint>

#include "kernels/common/cuda_platform.h"

namespace escalier::kernels::cuda {

#ifdef __CUDACC__

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void cp_async16(void* shared, const void* global, bool valid = true) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared_address(shared)), "l"(global),
                 "r"(valid ? 16 : 0)
                 : "memory");
}
__device__ __forceinline__ void cp_async_commit() {
    asm volatile("cp.async.commit_group;\n" ::: "memory");
}
template <int N>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(N) : "memory");
}

__device__ __forceinline__ void ldmatrix_x4(std::uint32_t (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}
__device__ __forceinline__ void ldmatrix_x4_trans(std::uint32_t (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}
__device__ __forceinline__ void ldmatrix_x2(std::uint32_t (&r)[2], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];\n"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(shared_address(row))
                 : "memory");
}
__device__ __forceinline__ void ldmatrix_x2_trans(std::uint32_t (&r)[2], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];\n"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(shared_address(row))
                 : "memory");
}

__device__ __forceinline__ void mma_bf16(float (&c)[4], const std::uint32_t (&a)[4],
                                         const std::uint32_t (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ float fast_exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
    return y;
}

#else

using cuda_emulation::cp_async16;
using cuda_emulation::cp_async_commit;
using cuda_emulation::cp_async_wait;
using cuda_emulation::fast_exp2;
using cuda_emulation::ldmatrix_x2;
using cuda_emulation::ldmatrix_x2_trans;
using cuda_emulation::ldmatrix_x4;
using cuda_emulation::ldmatrix_x4_trans;
using cuda_emulation::mma_bf16;

#endif

// Two floats, each rounded to nearest even, in one register; `lo` in the lower half (the even column).
__device__ __forceinline__ std::uint32_t pack_bf16(float lo, float hi) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(lo, hi);
    std::uint32_t bits;
    static_assert(sizeof(pair) == sizeof(bits));
    memcpy(&bits, &pair, sizeof bits);
    return bits;
}

}  // namespace escalier::kernels::cuda
