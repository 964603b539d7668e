// The one door to the matrix library: fp32 product on the calling thread alone.
#pragma once

#include <cstdint>

namespace escalier::kernels {

enum class Transpose : char { no = 'N', yes = 'T' };

// Row-major C[m,n] = alpha * op(A)[m,k] op(B)[k,n] + beta * C, leading dimensions in elements. With beta 0, C
// is not read. For given extents the bits depend on neither threads nor addresses.
void sgemm(Transpose transpose_a, Transpose transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
           float alpha, const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta,
           float* c, std::int64_t ldc);

}  // namespace escalier::kernels
