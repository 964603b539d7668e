// The stand-in for cuBLASLt: D = epilogue(alpha op(A) op(B) + beta C), column-major, summed in fp32 in the
// order of K and rounded once.
//
// Takes f32 or bf16 for A and B together; D, C and the vectors of the epilogue in the types that the table of
// cublasLtMatmul allows (cuBLAS documentation, "cublasLtMatmul"): bias and auxiliary matrix are of D's type.
// What the library refuses is refused: CUBLAS_STATUS_NOT_SUPPORTED, so also GELU on f32, or an auxiliary
// leading dimension that is no multiple of 8. Attributes that nothing here honours are refused as invalid.
#include <cublasLt.h>
#include <cuda_bf16.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include "cuda_emulation/shims/queue.h"

namespace escalier::cuda_emulation {
namespace {

using Attributes = std::map<int, std::vector<unsigned char>>;

template <class T>
T get(const Attributes& attributes, int name, T otherwise) {
    const auto found = attributes.find(name);
    if (found == attributes.end() || found->second.size() != sizeof(T)) return otherwise;
    T value;
    std::memcpy(&value, found->second.data(), sizeof value);
    return value;
}

// `sizes`: the attributes that are known, with the bytes of each.
cublasStatus_t set(Attributes& attributes, const std::map<int, std::size_t>& sizes, int name,
                   const void* value, std::size_t bytes) {
    const auto known = sizes.find(name);
    if (known == sizes.end() || known->second != bytes) return CUBLAS_STATUS_INVALID_VALUE;
    const auto* begin = static_cast<const unsigned char*>(value);
    attributes[name].assign(begin, begin + bytes);
    return CUBLAS_STATUS_SUCCESS;
}

// The library's opaque structs, of which only pointers go out.
struct Descriptor : cublasLtMatmulDescOpaque_t {
    cublasComputeType_t compute;
    Attributes attributes;
};
struct Layout : cublasLtMatrixLayoutOpaque_t {
    cudaDataType type;
    std::int64_t rows, columns, ld;
    Attributes attributes;
};
struct Preference : cublasLtMatmulPreferenceOpaque_t {
    Attributes attributes;
};
// Lies inside cublasLtMatmulAlgo_t.
struct Algorithm {
    std::uint64_t magic;
    std::uint32_t alignment[4];  // of A, B, C, D, in bytes
    std::uint64_t workspace;
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));
constexpr std::uint64_t algorithm_magic = 0x65736361;
constexpr std::size_t workspace_wanted = 16 * 1024;

const std::map<int, std::size_t> descriptor_attributes = {{CUBLASLT_MATMUL_DESC_POINTER_MODE, 4},
                                                          {CUBLASLT_MATMUL_DESC_TRANSA, 4},
                                                          {CUBLASLT_MATMUL_DESC_TRANSB, 4},
                                                          {CUBLASLT_MATMUL_DESC_EPILOGUE, 4},
                                                          {CUBLASLT_MATMUL_DESC_BIAS_POINTER, 8},
                                                          {CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, 4},
                                                          {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, 8},
                                                          {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 8},
                                                          {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, 4}};
const std::map<int, std::size_t> layout_attributes = {{CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 4},
                                                      {CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 8}};
const std::map<int, std::size_t> preference_attributes = {
    {CUBLASLT_MATMUL_PREF_SEARCH_MODE, 4},           {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 8},
    {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 4}, {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 4},
    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 4}, {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 4},
    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 4}};

constexpr int has_bias = CUBLASLT_EPILOGUE_BIAS, has_gelu = CUBLASLT_EPILOGUE_GELU, has_aux = 128,
              has_dgelu = 64, has_bgrad = 16;

struct Side {
    cudaDataType type;
    std::int64_t rows, columns, ld, batch_stride;
    bool transposed = false;
};

struct Problem {
    Side a, b, c, d;
    std::int64_t m, n, k;
    int batches = 1;
    int epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    void* bias = nullptr;
    void* aux = nullptr;
    std::int64_t aux_ld = 0;
};

Side side_of(const Layout& layout, bool transposed) {
    return {layout.type,
            layout.rows,
            layout.columns,
            layout.ld,
            get<std::int64_t>(layout.attributes, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 0),
            transposed};
}

bool known_epilogue(int epilogue) {
    return epilogue == CUBLASLT_EPILOGUE_DEFAULT || epilogue == CUBLASLT_EPILOGUE_BIAS ||
           epilogue == CUBLASLT_EPILOGUE_GELU || epilogue == CUBLASLT_EPILOGUE_GELU_BIAS ||
           epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS ||
           epilogue == CUBLASLT_EPILOGUE_DGELU || epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD ||
           epilogue == CUBLASLT_EPILOGUE_BGRADA || epilogue == CUBLASLT_EPILOGUE_BGRADB;
}

// Fills `problem`; says what the library would refuse.
cublasStatus_t describe(const Descriptor& descriptor, const Layout& a, const Layout& b, const Layout& c,
                        const Layout& d, Problem& problem) {
    const Attributes& wanted = descriptor.attributes;
    const auto op = [&](int name) { return get(wanted, name, CUBLAS_OP_N) != CUBLAS_OP_N; };
    problem.a = side_of(a, op(CUBLASLT_MATMUL_DESC_TRANSA));
    problem.b = side_of(b, op(CUBLASLT_MATMUL_DESC_TRANSB));
    problem.c = side_of(c, false);
    problem.d = side_of(d, false);
    problem.m = problem.a.transposed ? a.columns : a.rows;
    problem.k = problem.a.transposed ? a.rows : a.columns;
    problem.n = problem.b.transposed ? b.rows : b.columns;
    problem.batches = get<std::int32_t>(d.attributes, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 1);
    problem.epilogue =
        get(wanted, CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<int>(CUBLASLT_EPILOGUE_DEFAULT));
    problem.bias = get<void*>(wanted, CUBLASLT_MATMUL_DESC_BIAS_POINTER, nullptr);
    problem.aux = get<void*>(wanted, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, nullptr);
    problem.aux_ld = get<std::int64_t>(wanted, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 0);
    if ((problem.b.transposed ? b.columns : b.rows) != problem.k) return CUBLAS_STATUS_INVALID_VALUE;
    for (const Side* side : {&problem.c, &problem.d})
        if (side->rows != problem.m || side->columns != problem.n) return CUBLAS_STATUS_INVALID_VALUE;
    for (const Side* side : {&problem.a, &problem.b, &problem.c, &problem.d})
        if (side->ld < side->rows || side->rows <= 0 || side->columns <= 0)
            return CUBLAS_STATUS_INVALID_VALUE;

    const bool bf16_inputs = a.type == CUDA_R_16BF;
    if ((a.type != CUDA_R_32F && !bf16_inputs) || a.type != b.type || c.type != d.type ||
        (d.type != CUDA_R_32F && !(bf16_inputs && d.type == CUDA_R_16BF)))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    const cudaDataType vectors = get(wanted, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, d.type);
    const cudaDataType aux = get(wanted, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, d.type);
    if (vectors != d.type || aux != d.type || !known_epilogue(problem.epilogue))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (problem.epilogue & (has_gelu | has_dgelu)) {
        if (!bf16_inputs) return CUBLAS_STATUS_NOT_SUPPORTED;
        for (const Side* side : {&problem.a, &problem.b, &problem.c, &problem.d})
            if (side->ld % 8 != 0) return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (problem.epilogue & has_aux && (problem.aux_ld < problem.m || problem.aux_ld % 8 != 0))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return CUBLAS_STATUS_SUCCESS;
}

float load(const void* from, cudaDataType type, std::int64_t at) {
    return type == CUDA_R_32F ? static_cast<const float*>(from)[at]
                              : __bfloat162float(static_cast<const __nv_bfloat16*>(from)[at]);
}
void store(void* to, cudaDataType type, std::int64_t at, float value) {
    if (type == CUDA_R_32F)
        static_cast<float*>(to)[at] = value;
    else
        static_cast<__nv_bfloat16*>(to)[at] = __float2bfloat16_rn(value);
}

// op(side) or its transpose as dense rows of f32.
std::vector<float> dense(const void* from, const Side& side, std::int64_t offset, bool rows_of_op) {
    const std::int64_t rows = side.transposed ? side.columns : side.rows;
    const std::int64_t columns = side.transposed ? side.rows : side.columns;
    std::vector<float> out(static_cast<std::size_t>(rows * columns));
    for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < columns; ++j)
            out[static_cast<std::size_t>(rows_of_op ? i * columns + j : j * rows + i)] =
                load(from, side.type, offset + (side.transposed ? j + i * side.ld : i + j * side.ld));
    return out;
}

constexpr float gelu_scale = 0.7978845608f, gelu_cubic = 0.044715f;
float gelu(float x) {
    return 0.5f * x * (1.0f + std::tanh(gelu_scale * (x + gelu_cubic * x * x * x)));
}
float gelu_gradient(float x) {
    const float t = std::tanh(gelu_scale * (x + gelu_cubic * x * x * x));
    return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * gelu_scale * (1.0f + 3.0f * gelu_cubic * x * x);
}

struct Operands {
    const void *a, *b, *c;
    void* d;
    const float *alpha, *beta;
};

void column(const Problem& p, const Operands& o, std::int64_t batch, std::int64_t j, std::vector<float>& sum,
            std::vector<float>& bias_gradient) {
    const float alpha = *o.alpha, beta = *o.beta;
    for (std::int64_t i = 0; i < p.m; ++i) {
        float value = alpha * sum[static_cast<std::size_t>(i)];
        if (beta != 0) value += beta * load(o.c, p.c.type, batch * p.c.batch_stride + i + j * p.c.ld);
        if (p.epilogue & has_bias) value += load(p.bias, p.d.type, i);
        if (p.epilogue & has_gelu) {
            if (p.epilogue & has_aux) store(p.aux, p.d.type, i + j * p.aux_ld, value);
            value = gelu(value);
        }
        if (p.epilogue & has_dgelu) value *= gelu_gradient(load(p.aux, p.d.type, i + j * p.aux_ld));
        if (p.epilogue & has_bgrad) bias_gradient[static_cast<std::size_t>(i)] += value;
        store(o.d, p.d.type, batch * p.d.batch_stride + i + j * p.d.ld, value);
    }
}

void multiply(const Problem& p, const Operands& o) {
    for (std::int64_t batch = 0; batch < p.batches; ++batch) {
        const std::vector<float> a = dense(o.a, p.a, batch * p.a.batch_stride, false);  // [k][m]
        const std::vector<float> b = dense(o.b, p.b, batch * p.b.batch_stride, false);  // [n][k]
        std::vector<float> bias_gradient(static_cast<std::size_t>(p.m), 0.0f);
        std::vector<float> sum(static_cast<std::size_t>(p.m));
        for (std::int64_t j = 0; j < p.n; ++j) {
            std::fill(sum.begin(), sum.end(), 0.0f);
            for (std::int64_t k = 0; k < p.k; ++k) {
                const float factor = b[static_cast<std::size_t>(j * p.k + k)];
                const float* row = a.data() + k * p.m;
                for (std::int64_t i = 0; i < p.m; ++i) sum[static_cast<std::size_t>(i)] += row[i] * factor;
            }
            column(p, o, batch, j, sum, bias_gradient);
        }
        if (p.epilogue & has_bgrad)
            for (std::int64_t i = 0; i < p.m; ++i)
                store(p.bias, p.d.type, i, bias_gradient[static_cast<std::size_t>(i)]);
        if (p.epilogue != CUBLASLT_EPILOGUE_BGRADA && p.epilogue != CUBLASLT_EPILOGUE_BGRADB) continue;
        const bool of_a = p.epilogue == CUBLASLT_EPILOGUE_BGRADA;
        for (std::int64_t i = 0; i < (of_a ? p.m : p.n); ++i) {
            float total = 0;
            for (std::int64_t k = 0; k < p.k; ++k)
                total += of_a ? a[static_cast<std::size_t>(k * p.m + i)]
                              : b[static_cast<std::size_t>(i * p.k + k)];
            store(p.bias, p.d.type, i, total);
        }
    }
}

bool aligned(const void* pointer, std::size_t bytes) {
    return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

Algorithm choose(const Preference* preference) {
    Algorithm algorithm{algorithm_magic, {}, 0};
    const Attributes none;
    const Attributes& wanted = preference ? preference->attributes : none;
    const int names[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    for (int i = 0; i < 4; ++i) algorithm.alignment[i] = get<std::uint32_t>(wanted, names[i], 256);
    algorithm.workspace = std::min<std::uint64_t>(
        get<std::uint64_t>(wanted, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 0), workspace_wanted);
    return algorithm;
}

// Against what the algorithm was chosen for.
bool pointers_fit(const Problem& p, const Operands& o, const Algorithm& algorithm, const void* workspace,
                  std::size_t workspace_bytes) {
    const void* pointers[] = {o.a, o.b, o.c, o.d};
    for (int i = 0; i < 4; ++i)
        if (!aligned(pointers[i], algorithm.alignment[i])) return false;
    if (algorithm.workspace > workspace_bytes || (workspace_bytes > 0 && !aligned(workspace, 256)))
        return false;
    const bool vector = p.epilogue & (has_bias | has_bgrad) || p.epilogue >= CUBLASLT_EPILOGUE_BGRADA;
    if (vector && !p.bias) return false;
    return !(p.epilogue & has_aux) || (p.aux && aligned(p.aux, 16));
}

template <class T, class Opaque>
T& as(Opaque* opaque) {
    return *static_cast<T*>(opaque);
}

}  // namespace
}  // namespace escalier::cuda_emulation

struct cublasLtContext {};

using namespace escalier::cuda_emulation;

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
    int device = 0;
    if (cudaGetDeviceCount(&device) != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
    *handle = new cublasLtContext;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}
size_t cublasLtGetVersion() {
    return 130000;
}
const char* cublasLtGetStatusName(cublasStatus_t status) {
    switch (status) {
        case CUBLAS_STATUS_SUCCESS:
            return "CUBLAS_STATUS_SUCCESS";
        case CUBLAS_STATUS_NOT_INITIALIZED:
            return "CUBLAS_STATUS_NOT_INITIALIZED";
        case CUBLAS_STATUS_INVALID_VALUE:
            return "CUBLAS_STATUS_INVALID_VALUE";
        case CUBLAS_STATUS_NOT_SUPPORTED:
            return "CUBLAS_STATUS_NOT_SUPPORTED";
        default:
            return "CUBLAS_STATUS_INTERNAL_ERROR";
    }
}
const char* cublasLtGetStatusString(cublasStatus_t status) {
    return cublasLtGetStatusName(status);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* descriptor, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
    if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
    auto* created = new Descriptor;
    created->compute = compute;
    *descriptor = created;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t descriptor) {
    delete static_cast<Descriptor*>(descriptor);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t descriptor,
                                              cublasLtMatmulDescAttributes_t name, const void* value,
                                              size_t bytes) {
    return set(as<Descriptor>(descriptor).attributes, descriptor_attributes, name, value, bytes);
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t ld) {
    auto* created = new Layout;
    created->type = type;
    created->rows = static_cast<std::int64_t>(rows);
    created->columns = static_cast<std::int64_t>(columns);
    created->ld = ld;
    *layout = created;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
    delete static_cast<Layout*>(layout);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t name, const void* value,
                                                size_t bytes) {
    return set(as<Layout>(layout).attributes, layout_attributes, name, value, bytes);
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
    *preference = new Preference;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    delete static_cast<Preference*>(preference);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t name,
                                                    const void* value, size_t bytes) {
    return set(as<Preference>(preference).attributes, preference_attributes, name, value, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t descriptor,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int* found) {
    *found = 0;
    Problem problem;
    const cublasStatus_t status = describe(as<Descriptor>(descriptor), as<Layout>(a), as<Layout>(b),
                                           as<Layout>(c), as<Layout>(d), problem);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    if (wanted < 1) return CUBLAS_STATUS_INVALID_VALUE;
    const Algorithm algorithm = choose(static_cast<Preference*>(preference));
    results[0] = {};
    std::memcpy(&results[0].algo, &algorithm, sizeof algorithm);
    results[0].workspaceSize = algorithm.workspace;
    results[0].state = CUBLAS_STATUS_SUCCESS;
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t descriptor, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* chosen, void* workspace, size_t workspace_bytes,
                              cudaStream_t handle_of_stream) {
    if (!handle || !alpha || !beta || !a || !b || !c || !d) return CUBLAS_STATUS_INVALID_VALUE;
    Problem problem;
    const Descriptor& described = as<Descriptor>(descriptor);
    const cublasStatus_t status = describe(described, as<Layout>(a_layout), as<Layout>(b_layout),
                                           as<Layout>(c_layout), as<Layout>(d_layout), problem);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    Algorithm algorithm = choose(nullptr);
    if (chosen) std::memcpy(&algorithm, chosen, sizeof algorithm);
    Operands operands{a, b, c, d, static_cast<const float*>(alpha), static_cast<const float*>(beta)};
    if (algorithm.magic != algorithm_magic ||
        !pointers_fit(problem, operands, algorithm, workspace, workspace_bytes))
        return CUBLAS_STATUS_INVALID_VALUE;
    const bool on_host = get(described.attributes, CUBLASLT_MATMUL_DESC_POINTER_MODE,
                             CUBLASLT_POINTER_MODE_HOST) == CUBLASLT_POINTER_MODE_HOST;
    const float held_alpha = on_host ? *operands.alpha : 0, held_beta = on_host ? *operands.beta : 0;
    const cudaError_t queued = call([&](Queues& queues, Lock&) {
        CUstream_st* stream = queues.find(handle_of_stream, current_device());
        if (!stream) return cudaErrorInvalidResourceHandle;
        queues.submit(*stream, [=] {
            Operands held = operands;
            if (on_host) {
                held.alpha = &held_alpha;
                held.beta = &held_beta;
            }
            if (algorithm.workspace > 0) std::memset(workspace, 0xFF, algorithm.workspace);
            multiply(problem, held);
            return Progress::done;
        });
        return cudaSuccess;
    });
    return queued == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
}
