// Sweeps. Bytes an element of size s: residual_add 3s, fill s, copy s_in + s_out, add 3s, sum_parts (P + 1)
// s; the floor is those bytes at the speed of memory, of which 85-90 % is expected from 1 M elements on.
#include "kernels/elementwise.h"

#include "kernels/common/cuda_chunks.h"
#include "kernels/common/cuda_residual.h"
#include "kernels/common/cuda_twins.h"

namespace escalier::kernels::cuda {
namespace {

template <class Chunk, class S = ElementOf<Chunk>>
__global__ void residual_kernel(S* sum, const S* residual, const S* delta, Bias<S> bias, std::int64_t rows,
                                std::int64_t columns) {
    for_own_rows(rows, [&](std::int64_t row) {
        add_residual_row<Chunk>(sum + row * columns, residual + row * columns, delta + row * columns, bias,
                                columns, [](std::int64_t, const Chunk&) {});
    });
}

template <class Chunk, class S = ElementOf<Chunk>>
__global__ void fill_kernel(S* x, float value, std::int64_t n) {
    Chunk all;
#pragma unroll
    for (int i = 0; i < Chunk::size; ++i) all[i] = from_float<S>(value);
    sweep_all<Chunk>(
        n, [](int, std::int64_t) {}, [&](int, std::int64_t at) { all.store(x + at); });
}

template <class Chunk, class S = ElementOf<Chunk>>
__global__ void add_kernel(S* out, const S* in, std::int64_t n) {
    Chunk a[sweep_chunks], b[sweep_chunks];
    sweep_all<Chunk>(
        n,
        [&](int slot, std::int64_t at) {
            a[slot] = Chunk::load(out + at);
            b[slot] = Chunk::load_streaming(in + at);
        },
        [&](int slot, std::int64_t at) {
#pragma unroll
            for (int i = 0; i < Chunk::size; ++i)
                a[slot][i] = from_float<S>(to_float(a[slot][i]) + to_float(b[slot][i]));
            a[slot].store(out + at);
        });
}

template <class Chunk, class S = ElementOf<Chunk>>
__global__ void sum_parts_kernel(S* out, const S* parts, std::int64_t count, std::int64_t n) {
    Chunk part[sweep_chunks];
    sweep_all<Chunk>(
        n, [&](int slot, std::int64_t at) { part[slot] = Chunk::load_streaming(parts + at); },
        [&](int slot, std::int64_t at) {
            float sum[Chunk::size];
#pragma unroll
            for (int i = 0; i < Chunk::size; ++i) sum[i] = to_float(part[slot][i]);
            for (std::int64_t p = 1; p < count; ++p) {
                const Chunk next = Chunk::load_streaming(parts + p * n + at);
#pragma unroll
                for (int i = 0; i < Chunk::size; ++i) sum[i] += to_float(next[i]);
            }
#pragma unroll
            for (int i = 0; i < Chunk::size; ++i) part[slot][i] = from_float<S>(sum[i]);
            part[slot].store(out + at);
        });
}

// Between f32 and bf16, `width` elements at a time.
template <class To, class From, int width>
__global__ void convert_kernel(To* out, const From* in, std::int64_t n) {
    const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x * width;
    const std::int64_t own = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * width;
#pragma unroll 4
    for (std::int64_t at = own; at < n; at += step) {
        float values[width];
        load_floats(values, in + at);
        store_floats(out + at, values);
    }
}

template <class To, class From>
void convert(const OpContext& context, TensorView out, TensorView in) {
    constexpr int wide = 8;
    const std::int64_t n = in.elements();
    const auto run = [&](auto kernel, int width) {
        constexpr int blocks_per_multiprocessor = 8;
        launch(kernel,
               capped_blocks(context, ceil_div(n, std::int64_t{sweep_threads} * width),
                             blocks_per_multiprocessor),
               sweep_threads, 0, context.queue().stream, data_as<To>(out), data_as<From>(in), n);
    };
    if (n % wide == 0 && vectors_fit(DType::f32, wide, {out, in}))
        run(convert_kernel<To, From, wide>, wide);
    else
        run(convert_kernel<To, From, 1>, 1);
}

}  // namespace

void residual_add(const OpContext& context, TensorView sum, TensorView residual, TensorView delta,
                  TensorView delta_bias) {
    const std::int64_t rows = rows_of(sum), columns = columns_of(sum);
    ESCALIER_CHECK(residual.elements() == sum.elements() && delta.elements() == sum.elements(),
                   "shapes differ");
    ESCALIER_CHECK(!delta_bias.has_data() || delta_bias.elements() == columns, "bias has another length");
    if (rows == 0) return;
    const bool vectors = vectors_fit(sum.dtype(), columns, {sum, residual, delta, delta_bias});
    dispatch_chunk(sum.dtype(), vectors, [&]<class Chunk>() {
        using S = ElementOf<Chunk>;
        launch(residual_kernel<Chunk>, row_grid(context, rows), row_warps * 32, 0, context.queue().stream,
               data_as<S>(sum), data_as<S>(residual), data_as<S>(delta), bias_as<S>(delta_bias), rows,
               columns);
    });
}

void fill(const OpContext& context, TensorView x, float value) {
    const std::int64_t n = x.elements();
    if (n == 0) return;
    dispatch_chunk(x.dtype(), vectors_fit(x.dtype(), n, {x}), [&]<class Chunk>() {
        launch(fill_kernel<Chunk>, sweep_grid<Chunk>(context, n), sweep_threads, 0, context.queue().stream,
               data_as<ElementOf<Chunk>>(x), value, n);
    });
}

void copy(const OpContext& context, TensorView out, TensorView in) {
    ESCALIER_CHECK(out.elements() == in.elements(), "shapes differ");
    if (out.elements() == 0) return;
    if (out.dtype() == DType::bf16 && in.dtype() == DType::f32)
        return convert<__nv_bfloat16, float>(context, out, in);
    if (out.dtype() == DType::f32 && in.dtype() == DType::bf16)
        return convert<float, __nv_bfloat16>(context, out, in);
    ESCALIER_CHECK(out.dtype() == in.dtype(), "copy between these element types");
    check_cuda(
        cudaMemcpyAsync(out.data(), in.data(), out.bytes(), cudaMemcpyDeviceToDevice, context.queue().stream),
        "copy on the device");
}

void add(const OpContext& context, TensorView out, TensorView in) {
    const std::int64_t n = out.elements();
    ESCALIER_CHECK(in.elements() == n, "shapes differ");
    if (n == 0) return;
    dispatch_chunk(out.dtype(), vectors_fit(out.dtype(), n, {out, in}), [&]<class Chunk>() {
        using S = ElementOf<Chunk>;
        launch(add_kernel<Chunk>, sweep_grid<Chunk>(context, n), sweep_threads, 0, context.queue().stream,
               data_as<S>(out), data_as<S>(in), n);
    });
}

void sum_parts(const OpContext& context, TensorView out, TensorView parts) {
    const std::int64_t n = out.elements(), count = n ? parts.elements() / n : 0;
    ESCALIER_CHECK(parts.elements() == count * n, "parts do not fit");
    if (n == 0) return;
    ESCALIER_CHECK(count > 0, "there is no part to sum");
    dispatch_chunk(out.dtype(), vectors_fit(out.dtype(), n, {out, parts}), [&]<class Chunk>() {
        using S = ElementOf<Chunk>;
        launch(sum_parts_kernel<Chunk>, sweep_grid<Chunk>(context, n), sweep_threads, 0,
               context.queue().stream, data_as<S>(out), data_as<S>(parts), count, n);
    });
}

}  // namespace escalier::kernels::cuda
