#include "cuda_emulation/instructions.h"

namespace escalier::cuda_emulation {
namespace {

constexpr std::uint32_t whole_warp = 0xffffffffu;

float element(std::uint32_t pair, int half) {
    const std::uint32_t bits = half ? pair & 0xffff0000u : pair << 16;
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

template <int matrices, bool transposed>
void distribute_matrices(Thread* warp, std::uint32_t) {
    for (int lane = 0; lane < 32; ++lane) {
        std::uint32_t out[4] = {};
        for (int matrix = 0; matrix < matrices; ++matrix) {
            for (int half = 0; half < 2; ++half) {
                const int row = transposed ? 2 * (lane % 4) + half : lane / 4;
                const int column = transposed ? lane / 4 : 2 * (lane % 4) + half;
                std::uint16_t bits;
                __builtin_memcpy(&bits, warp[8 * matrix + row].slot.in + 2 * column, sizeof bits);
                out[matrix] |= std::uint32_t{bits} << (16 * half);
            }
        }
        __builtin_memcpy(warp[lane].slot.out, out, sizeof out);
    }
}

struct MmaOperands {  // of one lane
    float c[4];
    std::uint32_t a[4], b[2];
};

void multiply(Thread* warp, std::uint32_t) {
    float a[16][16], b[16][8], c[16][8];
    for (int lane = 0; lane < 32; ++lane) {
        MmaOperands operands;
        __builtin_memcpy(&operands, warp[lane].slot.in, sizeof operands);
        const int g = lane / 4, t = lane % 4;
        for (int half = 0; half < 2; ++half) {
            a[g][2 * t + half] = element(operands.a[0], half);
            a[g + 8][2 * t + half] = element(operands.a[1], half);
            a[g][2 * t + 8 + half] = element(operands.a[2], half);
            a[g + 8][2 * t + 8 + half] = element(operands.a[3], half);
            b[2 * t + half][g] = element(operands.b[0], half);
            b[2 * t + 8 + half][g] = element(operands.b[1], half);
            c[g][2 * t + half] = operands.c[half];
            c[g + 8][2 * t + half] = operands.c[2 + half];
        }
    }
    for (int row = 0; row < 16; ++row) {
        float sum[8] = {};
        for (int k = 0; k < 16; ++k)
            for (int column = 0; column < 8; ++column) sum[column] += a[row][k] * b[k][column];
        for (int column = 0; column < 8; ++column) c[row][column] += sum[column];
    }
    for (int lane = 0; lane < 32; ++lane) {
        const int g = lane / 4, t = lane % 4;
        const float out[4] = {c[g][2 * t], c[g][2 * t + 1], c[g + 8][2 * t], c[g + 8][2 * t + 1]};
        __builtin_memcpy(warp[lane].slot.out, out, sizeof out);
    }
}

}  // namespace

void require_aligned(const void* pointer, const char* what) {
    if (reinterpret_cast<std::uintptr_t>(pointer) % 16 != 0) fault(what);
}

void load_matrices(std::uint32_t* r, int matrices, bool transposed) {
    Thread* me = self;
    const WarpCompute compute =
        matrices == 4 ? (transposed ? &distribute_matrices<4, true> : &distribute_matrices<4, false>)
                      : (transposed ? &distribute_matrices<2, true> : &distribute_matrices<2, false>);
    warp_collective(WarpOperation::ldmatrix, whole_warp, compute);
    __builtin_memcpy(r, me->slot.out, sizeof(std::uint32_t) * static_cast<std::size_t>(matrices));
}

void mma_bf16(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
    Thread* me = self;
    MmaOperands operands;
    static_assert(sizeof operands <= sizeof me->slot.in);
    __builtin_memcpy(operands.c, c, sizeof operands.c);
    __builtin_memcpy(operands.a, a, sizeof operands.a);
    __builtin_memcpy(operands.b, b, sizeof operands.b);
    __builtin_memcpy(me->slot.in, &operands, sizeof operands);
    warp_collective(WarpOperation::mma, whole_warp, &multiply);
    __builtin_memcpy(c, me->slot.out, sizeof(float) * 4);
}

}  // namespace escalier::cuda_emulation
