#include "kernels/common/cuda_matmul.h"

#include <array>
#include <string>

#include "core/check.h"
#include "core/error.h"

namespace escalier::kernels::cuda {
namespace {

std::string describe(const Product& p) {
    const auto name = [](DType type) { return type == DType::f32 ? "f32" : "bf16"; };
    return "matrix product [" + std::to_string(p.m) + "," + std::to_string(p.k) + "] x [" +
           std::to_string(p.k) + "," + std::to_string(p.n) + "], " + name(p.inputs) + " to " +
           name(p.output) + ", epilogue " + std::to_string(static_cast<int>(p.fusion));
}

void check(cublasStatus_t status, const char* call, const std::string& what = "") {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    throw DeviceError(std::string(call) + " failed: " + cublasLtGetStatusName(status) + " (" +
                      cublasLtGetStatusString(status) + ")" + (what.empty() ? "" : ", " + what));
}

cudaDataType_t library_type(DType type) {
    ESCALIER_CHECK(type == DType::f32 || type == DType::bf16, "products are of f32 or bf16");
    return type == DType::f32 ? CUDA_R_32F : CUDA_R_16BF;
}

cublasLtEpilogue_t library_epilogue(Fusion fusion) {
    switch (fusion) {
        case Fusion::none:
            return CUBLASLT_EPILOGUE_DEFAULT;
        case Fusion::bias:
            return CUBLASLT_EPILOGUE_BIAS;
        case Fusion::gelu:
            return CUBLASLT_EPILOGUE_GELU_AUX;
        case Fusion::gelu_bias:
            return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
        case Fusion::gelu_gradient:
            return CUBLASLT_EPILOGUE_DGELU;
    }
    return CUBLASLT_EPILOGUE_DEFAULT;
}

bool wants_pre(Fusion fusion) {
    return fusion == Fusion::gelu || fusion == Fusion::gelu_bias || fusion == Fusion::gelu_gradient;
}
bool wants_bias(Fusion fusion) {
    return fusion == Fusion::bias || fusion == Fusion::gelu_bias;
}

constexpr std::uint32_t vector_alignment = 16;  // all that a vector load asks for

bool aligned(const void* memory) {
    return reinterpret_cast<std::uintptr_t>(memory) % vector_alignment == 0;
}

// Objects of the library that are created and destroyed alike.
template <class Handle, cublasStatus_t (*destroy)(Handle)>
struct Owned {
    Handle handle = nullptr;
    Owned() = default;
    Owned(const Owned&) = delete;
    Owned& operator=(const Owned&) = delete;
    ~Owned() {
        if (handle) destroy(handle);
    }
};
using Descriptor = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

template <class Value>
void set(const Descriptor& descriptor, cublasLtMatmulDescAttributes_t attribute, Value value) {
    check(cublasLtMatmulDescSetAttribute(descriptor.handle, attribute, &value, sizeof(value)),
          "cublasLtMatmulDescSetAttribute");
}
template <class Value>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute, Value value) {
    check(cublasLtMatmulPreferenceSetAttribute(preference.handle, attribute, &value, sizeof(value)),
          "cublasLtMatmulPreferenceSetAttribute");
}
void create(Layout& layout, DType type, std::int64_t rows, std::int64_t columns) {
    check(cublasLtMatrixLayoutCreate(&layout.handle, library_type(type), static_cast<std::uint64_t>(rows),
                                     static_cast<std::uint64_t>(columns), rows),
          "cublasLtMatrixLayoutCreate");
}

}  // namespace

struct Matmul::Plan {
    Descriptor descriptor;
    Layout first, second, result;  // the library's view: our B, our A, our D
    cublasLtMatmulAlgo_t algorithm{};

    explicit Plan(const Product& p) {
        check(cublasLtMatmulDescCreate(&descriptor.handle, CUBLAS_COMPUTE_32F, CUDA_R_32F),
              "cublasLtMatmulDescCreate");
        set(descriptor, CUBLASLT_MATMUL_DESC_TRANSA, p.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
        set(descriptor, CUBLASLT_MATMUL_DESC_TRANSB, p.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
        set(descriptor, CUBLASLT_MATMUL_DESC_EPILOGUE, library_epilogue(p.fusion));
        if (wants_pre(p.fusion)) set(descriptor, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.n);
        point_at(p);
        create(first, p.inputs, p.b_transposed ? p.k : p.n, p.b_transposed ? p.n : p.k);
        create(second, p.inputs, p.a_transposed ? p.m : p.k, p.a_transposed ? p.k : p.m);
        create(result, p.output, p.n, p.m);
    }
    void point_at(const Product& p) const {
        if (wants_bias(p.fusion)) set(descriptor, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
        if (wants_pre(p.fusion)) set(descriptor, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.pre);
    }
};

Matmul::Matmul(void* workspace, std::size_t bytes, bool deterministic)
    : workspace_(workspace), bytes_(bytes), deterministic_(deterministic) {
    check(cublasLtCreate(&handle_), "cublasLtCreate");
}

Matmul::~Matmul() {
    plans_.clear();
    cublasLtDestroy(handle_);
}

bool Matmul::fuses(const Product& p) {
    constexpr std::int64_t vector = 8;  // elements of bf16; also the multiple that the library wants for pre
    const std::int64_t a_columns = p.a_transposed ? p.m : p.k, b_columns = p.b_transposed ? p.k : p.n;
    const bool whole = p.n % vector == 0 && a_columns % vector == 0 && b_columns % vector == 0;
    const bool in_place = aligned(p.a) && aligned(p.b) && aligned(p.d) && aligned(p.bias) && aligned(p.pre);
    return p.inputs == DType::bf16 && p.output == DType::bf16 && whole && in_place && plan_for(p);
}

void Matmul::multiply(cudaStream_t stream, const Product& p) {
    const Plan* plan = plan_for(p);
    if (!plan)
        throw DeviceError("cuBLASLt has no algorithm for a " + describe(p) + " within " +
                          std::to_string(bytes_ >> 20) + " MiB of workspace");
    const float alpha = 1.0f, beta = p.accumulate ? 1.0f : 0.0f;
    check(cublasLtMatmul(handle_, plan->descriptor.handle, &alpha, p.b, plan->first.handle, p.a,
                         plan->second.handle, &beta, p.d, plan->result.handle, p.d, plan->result.handle,
                         &plan->algorithm, workspace_, bytes_, stream),
          "cublasLtMatmul", describe(p));
}

const Matmul::Plan* Matmul::plan_for(const Product& p) {
    ESCALIER_CHECK(wants_bias(p.fusion) == (p.bias != nullptr), "the bias goes with its epilogue");
    ESCALIER_CHECK(wants_pre(p.fusion) == (p.pre != nullptr), "pre goes with its epilogue");
    const Key key = {p.m,
                     p.n,
                     p.k,
                     p.a_transposed,
                     p.b_transposed,
                     p.accumulate,
                     aligned(p.a) && aligned(p.b) && aligned(p.d),
                     p.inputs,
                     p.output,
                     p.fusion};
    auto found = plans_.find(key);
    if (found == plans_.end()) found = plans_.emplace(key, choose(p, key)).first;
    const Plan* plan = found->second.get();
    if (plan) plan->point_at(p);
    return plan;
}

std::unique_ptr<Matmul::Plan> Matmul::choose(const Product& p, const Key& key) const {
    auto plan = std::make_unique<Plan>(p);
    Preference preference;
    check(cublasLtMatmulPreferenceCreate(&preference.handle), "cublasLtMatmulPreferenceCreate");
    set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, bytes_);
    // Never partial sums in the output's type, which may be bf16; summing in place only where order is free.
    std::uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    if (!deterministic_) schemes |= CUBLASLT_REDUCTION_SCHEME_INPLACE;
    set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes);
    const auto element = static_cast<std::uint32_t>(size_of(p.inputs));
    const std::uint32_t least = key.aligned ? vector_alignment : element;
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
        set(preference, attribute, least);

    std::array<cublasLtMatmulHeuristicResult_t, 8> candidates{};
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle_, plan->descriptor.handle, plan->first.handle, plan->second.handle, plan->result.handle,
        plan->result.handle, preference.handle, static_cast<int>(candidates.size()), candidates.data(),
        &found);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return nullptr;
    check(status, "cublasLtMatmulAlgoGetHeuristic", describe(p));
    for (int i = 0; i < found; ++i) {
        const cublasLtMatmulHeuristicResult_t& candidate = candidates[static_cast<std::size_t>(i)];
        if (candidate.state != CUBLAS_STATUS_SUCCESS || candidate.workspaceSize > bytes_) continue;
        plan->algorithm = candidate.algo;
        return plan;
    }
    return nullptr;
}

}  // namespace escalier::kernels::cuda
