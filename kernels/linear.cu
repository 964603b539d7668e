// Products run in cuBLASLt, with bias, GELU and its gradient fused into them where the library has that
// epilogue: bf16 throughout and rows of whole vectors. Elsewhere (f32, a bias that is kept in another type,
// odd shapes) a sweep follows the product: bias 2s bytes an element of size s, bias and GELU 3s, GELU's
// gradient 3s; floor: those at the speed of memory, of which 85 % is expected. The bias gradient reads dy
// once more: sN a row.
#include "kernels/linear.h"

#include "kernels/common/cuda_chunks.h"
#include "kernels/common/cuda_column_sums.h"
#include "kernels/common/cuda_matmul.h"
#include "kernels/common/cuda_twins.h"

namespace escalier::kernels::cuda {
namespace {

constexpr float log2_e = 1.44269504088896341f, twice_sqrt_2_over_pi = 1.5957691216057308f, cubic = 0.044715f;

// The tanh form of GELU is z * sigmoid(2u) with u = sqrt(2/pi) (z + 0.044715 z^3).
__device__ __forceinline__ float gelu_sigmoid(float z) {
    const float twice_u = twice_sqrt_2_over_pi * (z + cubic * z * z * z);
    return 1.0f / (1.0f + fast_exp2(-twice_u * log2_e));
}
__device__ __forceinline__ float gelu_derivative(float z) {
    const float s = gelu_sigmoid(z);
    return s + z * s * (1.0f - s) * twice_sqrt_2_over_pi * (1.0f + 3.0f * cubic * z * z);
}

// z (+)= bias, kept in place, and out = gelu(z) where out is there. A warp takes a row.
template <class Chunk, class S = ElementOf<Chunk>>
__global__ void bias_gelu_kernel(S* out, S* z, Bias<S> bias, std::int64_t rows, std::int64_t columns) {
    for_own_rows(rows, [&](std::int64_t row) {
        S* const own = z + row * columns;
        Chunk chunks[sweep_chunks];
        sweep_row<Chunk>(
            columns, [&](int slot, std::int64_t column) { chunks[slot] = Chunk::load(own + column); },
            [&](int slot, std::int64_t column) {
                float values[Chunk::size];
#pragma unroll
                for (int i = 0; i < Chunk::size; ++i) values[i] = to_float(chunks[slot][i]);
                if (bias) {
                    bias.template add_to<Chunk>(values, column);
                    store_floats(own + column, values);
                }
                if (!out) return;
#pragma unroll
                for (int i = 0; i < Chunk::size; ++i) values[i] *= gelu_sigmoid(values[i]);
                store_floats(out + row * columns + column, values);
            });
    });
}

template <class Chunk, class S = ElementOf<Chunk>>
__global__ void gelu_gradient_kernel(S* dx, const S* pre, std::int64_t n) {
    Chunk gradients[sweep_chunks], zs[sweep_chunks];
    sweep_all<Chunk>(
        n,
        [&](int slot, std::int64_t at) {
            gradients[slot] = Chunk::load(dx + at);
            zs[slot] = Chunk::load_streaming(pre + at);
        },
        [&](int slot, std::int64_t at) {
#pragma unroll
            for (int i = 0; i < Chunk::size; ++i)
                gradients[slot][i] =
                    from_float<S>(to_float(gradients[slot][i]) * gelu_derivative(to_float(zs[slot][i])));
            gradients[slot].store(dx + at);
        });
}

// The weight as products read it.
TensorView multiplied(DType storage, TensorView weight, TensorView prepared) {
    ESCALIER_CHECK(storage == DType::f32 || prepared.has_data(), "the weight was not prepared");
    return storage == DType::f32 ? weight : prepared;
}

Fusion fusion_of(Epilogue epilogue, bool bias) {
    if (epilogue == Epilogue::gelu) return bias ? Fusion::gelu_bias : Fusion::gelu;
    return bias ? Fusion::bias : Fusion::none;
}

}  // namespace

void prepare_weight(const OpContext& context, TensorView prepared, TensorView weight) {
    if (prepared.has_data()) copy(context, prepared, weight);
}

void linear_forward(const OpContext& context, TensorView y, TensorView pre, TensorView x, TensorView weight,
                    TensorView prepared, TensorView bias, Epilogue epilogue) {
    const std::int64_t rows = rows_of(x), k = columns_of(x), n = rows_of(weight);
    const bool gelu = epilogue == Epilogue::gelu;
    ESCALIER_CHECK(columns_of(weight) == k && y.elements() == rows * n, "shapes differ");
    ESCALIER_CHECK(y.dtype() == x.dtype(), "x and y are of one type");
    ESCALIER_CHECK(!bias.has_data() || bias.elements() == n, "bias has another length");
    ESCALIER_CHECK(!gelu || pre.elements() == y.elements(), "gelu keeps pre");
    const TensorView w = multiplied(x.dtype(), weight, prepared);
    ESCALIER_CHECK(w.dtype() == x.dtype(), "weight and x are of one type");
    if (rows == 0) return;

    Product product = {.m = rows,
                       .n = n,
                       .k = k,
                       .a = x.data(),
                       .b = w.data(),
                       .d = y.data(),
                       .b_transposed = true,
                       .inputs = x.dtype(),
                       .output = y.dtype(),
                       .fusion = fusion_of(epilogue, bias.has_data()),
                       .bias = bias.data(),
                       .pre = gelu ? pre.data() : nullptr};
    Matmul& matmul = *context.queue().matmul;
    const bool own_bias = bias.has_data() && bias.dtype() != y.dtype();
    const bool fused = product.fusion == Fusion::none || (!own_bias && matmul.fuses(product));
    if (!fused) {
        product.fusion = Fusion::none;
        product.bias = product.pre = nullptr;
        if (gelu) product.d = pre.data();
    }
    matmul.multiply(context.queue().stream, product);
    if (fused) return;
    const TensorView z = gelu ? pre : y;
    dispatch_chunk(y.dtype(), vectors_fit(y.dtype(), n, {y, z, bias}), [&]<class Chunk>() {
        using S = ElementOf<Chunk>;
        launch(bias_gelu_kernel<Chunk>, row_grid(context, rows), row_warps * 32, 0, context.queue().stream,
               gelu ? data_as<S>(y) : nullptr, data_as<S>(z), bias_as<S>(bias), rows, n);
    });
}

void linear_backward_input(const OpContext& context, TensorView dx, TensorView dy, TensorView weight,
                           TensorView prepared, TensorView pre, Epilogue epilogue, Accumulate accumulate) {
    const std::int64_t rows = rows_of(dy), n = columns_of(dy), k = columns_of(weight);
    const bool gelu = epilogue == Epilogue::gelu;
    ESCALIER_CHECK(rows_of(weight) == n && dx.elements() == rows * k, "shapes differ");
    ESCALIER_CHECK(!gelu || accumulate == Accumulate::overwrite, "the gradient of gelu cannot be added");
    ESCALIER_CHECK(!gelu || pre.elements() == dx.elements(), "gelu wants pre");
    const TensorView w = multiplied(dy.dtype(), weight, prepared);
    ESCALIER_CHECK(w.dtype() == dy.dtype() && dx.dtype() == dy.dtype(), "all are of one type");
    if (rows == 0) return;

    Product product = {.m = rows,
                       .n = k,
                       .k = n,
                       .a = dy.data(),
                       .b = w.data(),
                       .d = dx.data(),
                       .inputs = dy.dtype(),
                       .output = dx.dtype(),
                       .accumulate = accumulate == Accumulate::add,
                       .fusion = gelu ? Fusion::gelu_gradient : Fusion::none,
                       .pre = gelu ? pre.data() : nullptr};
    Matmul& matmul = *context.queue().matmul;
    const bool fused = !gelu || matmul.fuses(product);
    if (!fused) {
        product.fusion = Fusion::none;
        product.pre = nullptr;
    }
    matmul.multiply(context.queue().stream, product);
    if (fused) return;
    const std::int64_t elements = dx.elements();
    dispatch_chunk(dx.dtype(), vectors_fit(dx.dtype(), elements, {dx, pre}), [&]<class Chunk>() {
        using S = ElementOf<Chunk>;
        launch(gelu_gradient_kernel<Chunk>, sweep_grid<Chunk>(context, elements), sweep_threads, 0,
               context.queue().stream, data_as<S>(dx), data_as<S>(pre), elements);
    });
}

void linear_backward_weight(const OpContext& context, TensorView dweight, TensorView dbias, TensorView dy,
                            TensorView x, Accumulate accumulate) {
    const std::int64_t rows = rows_of(x), k = columns_of(x), n = columns_of(dy);
    ESCALIER_CHECK(rows_of(dy) == rows && dweight.elements() == n * k, "shapes differ");
    ESCALIER_CHECK(dy.dtype() == x.dtype(), "x and dy are of one type");
    ESCALIER_CHECK(!dbias.has_data() || dbias.elements() == n, "dbias has another length");
    if (rows > 0)
        context.queue().matmul->multiply(context.queue().stream,
                                         {.m = n,
                                          .n = k,
                                          .k = rows,
                                          .a = dy.data(),
                                          .b = x.data(),
                                          .d = dweight.as<float>(),
                                          .a_transposed = true,
                                          .inputs = x.dtype(),
                                          .output = DType::f32,
                                          .accumulate = accumulate == Accumulate::add});
    else if (accumulate == Accumulate::overwrite)
        fill(context, dweight, 0.0f);
    if (dbias.has_data()) add_column_sums(context, dbias, dy, accumulate);
}

}  // namespace escalier::kernels::cuda
