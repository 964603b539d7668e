// The twins of the wrappers in kernels/common/cuda_mma.h and cuda_vector.h, with the layouts of lanes that
// the PTX ISA documents ("Matrix fragments for mma.m16n8k16", "ldmatrix").
//
// cp.async: from its issue until the wait that covers it the 16 bytes in shared memory hold NaN, and the
// source is read at that wait: whoever reads too early, or still reads the old contents, gets a wrong number.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "cuda_emulation/block.h"

namespace escalier::cuda_emulation {

void require_aligned(const void* pointer, const char* what);  // to 16 bytes

inline uint4 load16(const void* from) {
    require_aligned(from, "a 16-byte load from an address that is not 16-byte aligned");
    uint4 bits;
    std::memcpy(&bits, from, sizeof bits);
    return bits;
}
inline void store16(void* to, uint4 bits) {
    require_aligned(to, "a 16-byte store to an address that is not 16-byte aligned");
    std::memcpy(to, &bits, sizeof bits);
}

inline void cp_async16(void* shared, const void* global, bool valid = true) {
    store16(shared, uint4{~0u, ~0u, ~0u, ~0u});
    if (valid) require_aligned(global, "cp.async from an address that is not 16-byte aligned");
    self->copies.push_back({shared, valid ? global : nullptr, self->copy_group});
}
inline void cp_async_commit() {
    ++self->copy_group;
}
// Does the copies of this thread but for the latest `kept` groups.
inline void complete_copies(std::uint32_t kept) {
    std::vector<PendingCopy>& copies = self->copies;
    std::size_t done = 0;
    for (; done < copies.size() && copies[done].group + kept < self->copy_group; ++done)
        store16(copies[done].to, copies[done].from ? load16(copies[done].from) : uint4{});
    copies.erase(copies.begin(), copies.begin() + static_cast<std::ptrdiff_t>(done));
}
template <int N>
void cp_async_wait() {
    complete_copies(N);
}

// slot.in: the row of this lane, and of lane l the 8x8 matrix l/8 the row l%8.
void load_matrices(std::uint32_t* r, int matrices, bool transposed);

template <int matrices, bool transposed>
void ldmatrix(std::uint32_t (&r)[matrices], const void* row) {
    if (self->lane() < 8 * matrices) {
        const uint4 bits = load16(row);
        std::memcpy(self->slot.in, &bits, sizeof bits);
    }
    load_matrices(r, matrices, transposed);
}
inline void ldmatrix_x4(std::uint32_t (&r)[4], const void* row) {
    ldmatrix<4, false>(r, row);
}
inline void ldmatrix_x4_trans(std::uint32_t (&r)[4], const void* row) {
    ldmatrix<4, true>(r, row);
}
inline void ldmatrix_x2(std::uint32_t (&r)[2], const void* row) {
    ldmatrix<2, false>(r, row);
}
inline void ldmatrix_x2_trans(std::uint32_t (&r)[2], const void* row) {
    ldmatrix<2, true>(r, row);
}

void mma_bf16(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]);

// Subnormal results are flushed to zero, as ex2.approx.ftz does.
inline float fast_exp2(float x) {
    const float y = std::exp2(x);
    return y < 1.17549435e-38f ? 0.0f : y;
}

}  // namespace escalier::cuda_emulation
