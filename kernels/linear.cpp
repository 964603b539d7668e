#include "kernels/linear.h"

#include "kernels/common/cpu_twins.h"
#include "kernels/common/exp.h"
#include "kernels/common/rows.h"
#include "kernels/common/sgemm.h"
#include "kernels/common/tiles.h"

namespace escalier::kernels::cpu {
namespace {

// pre (+)= bias, y = gelu(pre). bias may be null.
ESCALIER_VECTORIZED void gelu_row(float* y, float* pre, const float* bias, std::int64_t n) {
    sweep(n, [&](std::int64_t i, auto lanes) {
        FloatLanes z = load(pre + i, lanes);
        if (bias) {
            z += load(bias + i, lanes);
            store(pre + i, z, lanes);
        }
        store(y + i, gelu_lanes(z), lanes);
    });
}

ESCALIER_VECTORIZED void gelu_gradient_row(float* dx, const float* pre, std::int64_t n) {
    sweep(n, [&](std::int64_t i, auto lanes) {
        store(dx + i, load(dx + i, lanes) * gelu_derivative_lanes(load(pre + i, lanes)), lanes);
    });
}

}  // namespace

std::int64_t prepared_weight_elements(std::int64_t, std::int64_t, DType) {
    return 0;
}

// The library multiplies with the weight as it is.
void prepare_weight(const OpContext&, TensorView, TensorView) {}

void linear_forward(const OpContext& context, TensorView y, TensorView pre, TensorView x, TensorView weight,
                    TensorView, TensorView bias, Epilogue epilogue) {
    const std::int64_t rows = rows_of(x), k = columns_of(x), n = rows_of(weight);
    ESCALIER_CHECK(columns_of(weight) == k && y.elements() == rows * n, "shapes differ");
    ESCALIER_CHECK(!bias.has_data() || bias.elements() == n, "bias has another length");
    ESCALIER_CHECK(epilogue == Epilogue::none || pre.elements() == y.elements(), "gelu keeps pre");
    const float *in = x.as<float>(), *w = weight.as<float>(), *shift = bias.as<float>();
    float* out = y.as<float>();
    float* product = epilogue == Epilogue::gelu ? pre.as<float>() : out;
    const TileGrid tiles(rows, n);
    context.pool().parallel_for(tiles.count(), [&](std::int64_t task, int) {
        const Tile tile = tiles[task];
        const std::int64_t corner = tile.row * n + tile.column;
        const float* tile_bias = shift ? shift + tile.column : nullptr;
        sgemm(Transpose::no, Transpose::yes, tile.rows, tile.columns, k, 1.0f, in + tile.row * k, k,
              w + tile.column * k, k, 0.0f, product + corner, n);
        for (std::int64_t at = corner; at < corner + tile.rows * n; at += n) {
            if (epilogue == Epilogue::gelu)
                gelu_row(out + at, product + at, tile_bias, tile.columns);
            else if (tile_bias)
                add_row(out + at, tile_bias, tile.columns);
        }
    });
}

void linear_backward_input(const OpContext& context, TensorView dx, TensorView dy, TensorView weight,
                           TensorView, TensorView pre, Epilogue epilogue, Accumulate accumulate) {
    const std::int64_t rows = rows_of(dy), n = columns_of(dy), k = columns_of(weight);
    ESCALIER_CHECK(rows_of(weight) == n && dx.elements() == rows * k, "shapes differ");
    ESCALIER_CHECK(epilogue == Epilogue::none || accumulate == Accumulate::overwrite,
                   "the gradient of gelu cannot be added");
    ESCALIER_CHECK(epilogue == Epilogue::none || pre.elements() == dx.elements(), "gelu wants pre");
    const float *d = dy.as<float>(), *w = weight.as<float>(), *z = pre.as<float>();
    float* out = dx.as<float>();
    const float beta = accumulate == Accumulate::add ? 1.0f : 0.0f;
    const TileGrid tiles(rows, k);
    context.pool().parallel_for(tiles.count(), [&](std::int64_t task, int) {
        const Tile tile = tiles[task];
        const std::int64_t corner = tile.row * k + tile.column;
        sgemm(Transpose::no, Transpose::no, tile.rows, tile.columns, n, 1.0f, d + tile.row * n, n,
              w + tile.column, k, beta, out + corner, k);
        if (epilogue == Epilogue::gelu)
            for (std::int64_t at = corner; at < corner + tile.rows * k; at += k)
                gelu_gradient_row(out + at, z + at, tile.columns);
    });
}

void linear_backward_weight(const OpContext& context, TensorView dweight, TensorView dbias, TensorView dy,
                            TensorView x, Accumulate accumulate) {
    const std::int64_t rows = rows_of(x), k = columns_of(x), n = columns_of(dy);
    ESCALIER_CHECK(rows_of(dy) == rows && dweight.elements() == n * k, "shapes differ");
    ESCALIER_CHECK(!dbias.has_data() || dbias.elements() == n, "dbias has another length");
    const float *d = dy.as<float>(), *in = x.as<float>();
    float *out = dweight.as<float>(), *bias_out = dbias.as<float>();
    const float beta = accumulate == Accumulate::add ? 1.0f : 0.0f;
    const TileGrid tiles(n, k);
    context.pool().parallel_for(tiles.count(), [&](std::int64_t task, int) {
        const Tile tile = tiles[task];
        sgemm(Transpose::yes, Transpose::no, tile.rows, tile.columns, rows, 1.0f, d + tile.row, n,
              in + tile.column, k, beta, out + tile.row * k + tile.column, k);
    });
    if (!bias_out) return;
    constexpr std::int64_t columns_per_task = 64;
    for_blocks(context, n, columns_per_task, [&](std::int64_t begin, std::int64_t end, int) {
        float sums[columns_per_task] = {};
        for (std::int64_t row = 0; row < rows; ++row) add_row(sums, d + row * n + begin, end - begin);
        if (accumulate == Accumulate::overwrite) std::fill(bias_out + begin, bias_out + end, 0.0f);
        add_row(bias_out + begin, sums, end - begin);
    });
}

}  // namespace escalier::kernels::cpu
