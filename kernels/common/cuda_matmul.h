// The one door to cuBLASLt: row-major matrix products with the epilogues that a linear layer wants.
//
// The library reads matrices column by column, and the memory of a row-major M[r,c] is a column-major
// M^T[c,r]. So D = op(A) op(B) is asked for as D^T = op(B)^T op(A)^T: our B is the library's first operand,
// our A its second, extents m and n change places, and a matrix is transposed for the library where it is for
// us. The bias of the library runs along the rows of its result, which are our columns: [n].
//
// An algorithm is chosen once for each shape, types and epilogue: the first of the library's list whose
// workspace fits. Partial sums are kept in fp32 always; a product in f32 takes no TF32 shortcut. Host code:
// one object per queue, used by one thread; nothing here waits for the device.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <map>
#include <memory>

#include "core/dtype.h"
#include "kernels/cuda_sizes.h"

namespace escalier::kernels::cuda {

enum class Fusion {
    none,
    bias,          // D = product + bias
    gelu,          // pre = product, D = gelu(pre)
    gelu_bias,     // pre = product + bias, D = gelu(pre)
    gelu_gradient  // D = product * gelu'(pre)
};

// D[m,n] = op(A)[m,k] op(B)[k,n], row-major and dense; A is stored as [k,m] where a_transposed, B as [n,k]
// where b_transposed. bias [n] and pre [m,n] have the type of D.
struct Product {
    std::int64_t m, n, k;
    const void *a, *b;
    void* d;
    bool a_transposed = false, b_transposed = false;
    DType inputs, output;     // f32 or bf16
    bool accumulate = false;  // D += instead of D =
    Fusion fusion = Fusion::none;
    const void* bias = nullptr;
    void* pre = nullptr;  // read by gelu_gradient, written by gelu and gelu_bias
};

class Matmul {
 public:
    static constexpr std::size_t workspace_bytes = matmul_workspace_bytes;

    // workspace: device memory, 256-byte aligned, that lives as long as this object and is used by the
    // products of one stream alone. deterministic: no algorithm whose parts of a sum meet in the output.
    Matmul(void* workspace, std::size_t bytes, bool deterministic);
    ~Matmul();
    Matmul(const Matmul&) = delete;
    Matmul& operator=(const Matmul&) = delete;

    // Whether the library fuses the product's epilogue: bf16, rows of whole 16-byte vectors, and an algorithm
    // for it (asked once).
    bool fuses(const Product& product);
    // Queues the product on `stream`. Throws DeviceError with the library's reason and the shape.
    void multiply(cudaStream_t stream, const Product& product);
    std::size_t chosen() const { return plans_.size(); }

 private:
    struct Key {
        std::int64_t m, n, k;
        bool a_transposed, b_transposed, accumulate, aligned;
        DType inputs, output;
        Fusion fusion;
        auto operator<=>(const Key&) const = default;
    };
    struct Plan;

    const Plan* plan_for(const Product& product);  // null: the library has no algorithm
    std::unique_ptr<Plan> choose(const Product& product, const Key& key) const;

    cublasLtHandle_t handle_ = nullptr;
    void* workspace_;
    std::size_t bytes_;
    bool deterministic_;
    std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace escalier::kernels::cuda
