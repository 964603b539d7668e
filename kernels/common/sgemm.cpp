#include "kernels/common/sgemm.h"

#include <dnnl.h>
#include <omp.h>

#include "core/check.h"

namespace escalier::kernels {
namespace {

// oneDNN would start an OpenMP team of its own on every calling thread; the compute pool is the only team.
void keep_library_single_threaded() {
    thread_local const bool once = [] {
        omp_set_num_threads(1);
        return true;
    }();
    static_cast<void>(once);
}

}  // namespace

void sgemm(Transpose transpose_a, Transpose transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
           float alpha, const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta,
           float* c, std::int64_t ldc) {
    if (m == 0 || n == 0) return;
    keep_library_single_threaded();
    const dnnl_status_t status = dnnl_sgemm(static_cast<char>(transpose_a), static_cast<char>(transpose_b), m,
                                            n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    ESCALIER_CHECK(status == dnnl_success, "dnnl_sgemm failed");
}

}  // namespace escalier::kernels
