// The stand-in for cuBLASLt against plain sums in double precision.
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "cuda_emulation/random.h"

namespace escalier::test {
namespace {

struct Case {
    cudaDataType inputs, output;
    bool transposed_a, transposed_b;
    int epilogue;
    float beta;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
    return out << "inputs " << c.inputs << ", output " << c.output << ", " << c.transposed_a << c.transposed_b
               << ", epilogue " << c.epilogue << ", beta " << c.beta;
}

// Device memory of one of the two types, filled with small numbers that bf16 holds exactly.
class Matrix {
 public:
    Matrix(cudaDataType type, int elements, int salt) : type_(type) {
        EXPECT_EQ(cudaMalloc(&memory_, static_cast<std::size_t>(elements) * 4), cudaSuccess);
        for (int i = 0; i < elements; ++i) set(i, static_cast<float>((i * 7 + salt) % 9 - 4) * 0.25f);
    }
    ~Matrix() { cudaFree(memory_); }
    void set(int i, float value) {
        if (type_ == CUDA_R_32F)
            static_cast<float*>(memory_)[i] = value;
        else
            static_cast<__nv_bfloat16*>(memory_)[i] = __float2bfloat16_rn(value);
    }
    double at(int i) const {
        return type_ == CUDA_R_32F ? static_cast<float*>(memory_)[i]
                                   : __bfloat162float(static_cast<__nv_bfloat16*>(memory_)[i]);
    }
    void* data() const { return memory_; }

 private:
    cudaDataType type_;
    void* memory_ = nullptr;
};

constexpr int m = 24, n = 5, k = 19;
constexpr int ld_extra = 8;
constexpr int aux_ld = m + ld_extra;

class Lt : public ::testing::Test {
 protected:
    Lt() {
        cuda_emulation::set_seed(0);  // nothing runs before somebody waits
        EXPECT_EQ(cublasLtCreate(&handle_), CUBLAS_STATUS_SUCCESS);
        EXPECT_EQ(cublasLtMatmulDescCreate(&descriptor_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                  CUBLAS_STATUS_SUCCESS);
        EXPECT_EQ(cublasLtMatmulPreferenceCreate(&preference_), CUBLAS_STATUS_SUCCESS);
    }
    ~Lt() override {
        for (cublasLtMatrixLayout_t layout : layouts_) cublasLtMatrixLayoutDestroy(layout);
        cublasLtMatmulPreferenceDestroy(preference_);
        cublasLtMatmulDescDestroy(descriptor_);
        cublasLtDestroy(handle_);
    }
    template <class T>
    void set(cublasLtMatmulDescAttributes_t name, T value) {
        EXPECT_EQ(cublasLtMatmulDescSetAttribute(descriptor_, name, &value, sizeof value),
                  CUBLAS_STATUS_SUCCESS);
    }
    cublasLtMatrixLayout_t layout(cudaDataType type, int rows, int columns, int ld) {
        cublasLtMatrixLayout_t created = nullptr;
        EXPECT_EQ(cublasLtMatrixLayoutCreate(&created, type, rows, columns, ld), CUBLAS_STATUS_SUCCESS);
        layouts_.push_back(created);
        return created;
    }
    cublasStatus_t multiply(const Case& c, const Matrix& a, const Matrix& b, const Matrix& d) {
        set(CUBLASLT_MATMUL_DESC_TRANSA, c.transposed_a ? CUBLAS_OP_T : CUBLAS_OP_N);
        set(CUBLASLT_MATMUL_DESC_TRANSB, c.transposed_b ? CUBLAS_OP_T : CUBLAS_OP_N);
        set(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<cublasLtEpilogue_t>(c.epilogue));
        const auto la = c.transposed_a ? layout(c.inputs, k, m, lda(c)) : layout(c.inputs, m, k, lda(c));
        const auto lb = c.transposed_b ? layout(c.inputs, n, k, ldb(c)) : layout(c.inputs, k, n, ldb(c));
        const auto ld = layout(c.output, m, n, ldd);
        cublasLtMatmulHeuristicResult_t result;
        int found = 0;
        const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle_, descriptor_, la, lb, ld, ld,
                                                                     preference_, 1, &result, &found);
        if (status != CUBLAS_STATUS_SUCCESS) return status;
        const float alpha = 0.5f;
        return cublasLtMatmul(handle_, descriptor_, &alpha, a.data(), la, b.data(), lb, &c.beta, d.data(), ld,
                              d.data(), ld, &result.algo, nullptr, 0, nullptr);
    }
    static int lda(const Case& c) { return (c.transposed_a ? 24 : m) + ld_extra; }
    static int ldb(const Case& c) { return (c.transposed_b ? 8 : 24) + ld_extra; }
    static constexpr int ldd = m + ld_extra;

    cublasLtHandle_t handle_ = nullptr;
    cublasLtMatmulDesc_t descriptor_ = nullptr;
    cublasLtMatmulPreference_t preference_ = nullptr;
    std::vector<cublasLtMatrixLayout_t> layouts_;
};

double gelu(double x) {
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

class LtProducts : public Lt, public ::testing::WithParamInterface<Case> {};

TEST_P(LtProducts, GiveTheFormula) {
    const Case c = GetParam();
    Matrix a(c.inputs, 40 * 40, 1), b(c.inputs, 40 * 40, 2), d(c.output, ldd * n, 3), bias(c.output, m, 4),
        aux(c.output, aux_ld * n, 5);
    std::vector<double> old, old_aux;
    for (int i = 0; i < ldd * n; ++i) old.push_back(d.at(i));
    for (int i = 0; i < aux_ld * n; ++i) old_aux.push_back(aux.at(i));
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.data());
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux.data());
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, std::int64_t{aux_ld});
    ASSERT_EQ(multiply(c, a, b, d), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(d.at(0), old[0]) << "a product waits for its stream";
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const double tolerance = c.output == CUDA_R_32F ? 1e-5 : 0.005;
    for (int j = 0; j < n; ++j)
        for (int i = 0; i < m; ++i) {
            double x = 0;
            for (int l = 0; l < k; ++l)
                x += 0.5 * a.at(c.transposed_a ? l + i * lda(c) : i + l * lda(c)) *
                     b.at(c.transposed_b ? j + l * ldb(c) : l + j * ldb(c));
            x += c.beta * old[static_cast<std::size_t>(i + j * ldd)];
            if (c.epilogue & CUBLASLT_EPILOGUE_BIAS) x += bias.at(i);
            if (c.epilogue & CUBLASLT_EPILOGUE_GELU) {
                EXPECT_NEAR(aux.at(i + j * aux_ld), x, tolerance * (1 + std::abs(x)));
                x = gelu(x);
            }
            if (c.epilogue == CUBLASLT_EPILOGUE_DGELU) {
                const double y = old_aux[static_cast<std::size_t>(i + j * aux_ld)], h = 1e-6;
                x *= (gelu(y + h) - gelu(y - h)) / (2 * h);
            }
            EXPECT_NEAR(d.at(i + j * ldd), x, tolerance * (1 + std::abs(x))) << i << ", " << j;
        }
}

constexpr cudaDataType f32 = CUDA_R_32F, bf16 = CUDA_R_16BF;
INSTANTIATE_TEST_SUITE_P(Cases, LtProducts,
                         ::testing::Values(Case{f32, f32, false, false, CUBLASLT_EPILOGUE_DEFAULT, 0},
                                           Case{f32, f32, true, false, CUBLASLT_EPILOGUE_BIAS, 1},
                                           Case{f32, f32, false, true, CUBLASLT_EPILOGUE_DEFAULT, 1},
                                           Case{bf16, f32, true, true, CUBLASLT_EPILOGUE_DEFAULT, 1},
                                           Case{bf16, bf16, false, false, CUBLASLT_EPILOGUE_DEFAULT, 0},
                                           Case{bf16, bf16, true, false, CUBLASLT_EPILOGUE_BIAS, 0},
                                           Case{bf16, bf16, true, false, CUBLASLT_EPILOGUE_GELU_AUX_BIAS, 0},
                                           Case{bf16, bf16, true, false, CUBLASLT_EPILOGUE_GELU_AUX, 0},
                                           Case{bf16, bf16, false, false, CUBLASLT_EPILOGUE_DGELU, 0}));

TEST_F(Lt, RefusesWhatTheLibraryRefuses) {
    Matrix a(bf16, 1600, 1), b(bf16, 1600, 2), d(bf16, ldd * n, 3), aux(bf16, aux_ld * n, 5);
    const Case bias{bf16, bf16, false, false, CUBLASLT_EPILOGUE_BIAS, 0};
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_32F);
    EXPECT_EQ(multiply(bias, a, b, d), CUBLAS_STATUS_NOT_SUPPORTED) << "fp32 bias of a bf16 result";
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_16BF);
    EXPECT_EQ(multiply(bias, a, b, d), CUBLAS_STATUS_INVALID_VALUE) << "no bias";
    const Case gelu_case{bf16, bf16, false, false, CUBLASLT_EPILOGUE_GELU_AUX, 0};
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux.data());
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, std::int64_t{m + 1});
    EXPECT_EQ(multiply(gelu_case, a, b, d), CUBLAS_STATUS_NOT_SUPPORTED) << "auxiliary leading dimension";
    EXPECT_EQ(multiply({f32, bf16, false, false, CUBLASLT_EPILOGUE_DEFAULT, 0}, a, b, d),
              CUBLAS_STATUS_NOT_SUPPORTED)
        << "f32 to bf16";
}

}  // namespace
}  // namespace escalier::test
