// How loops are cut into tasks: by shape alone, never by the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/op_context.h"
#include "core/tensor_view.h"

namespace escalier::kernels {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
    return (a + b - 1) / b;
}
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) {
    return ceil_div(a, b) * b;
}

// A view as a matrix: its last axis against all others.
inline std::int64_t columns_of(const TensorView& view) {
    return view.shape().rank() ? view.extent(view.shape().rank() - 1) : 0;
}
inline std::int64_t rows_of(const TensorView& view) {
    const std::int64_t columns = columns_of(view);
    return columns ? view.elements() / columns : 0;
}

inline constexpr std::int64_t elements_per_task = 16384;

// body(begin, end, thread) over blocks of [0, n), `block` long.
template <class Body>
void for_blocks(const OpContext& context, std::int64_t n, std::int64_t block, Body body) {
    context.pool().parallel_for(ceil_div(n, block), [&](std::int64_t task, int thread) {
        body(task * block, std::min(n, (task + 1) * block), thread);
    });
}
// The same over rows, as many to a block as make a task worth its while.
template <class Body>
void for_row_blocks(const OpContext& context, std::int64_t rows, std::int64_t columns, Body body) {
    const std::int64_t block =
        std::max<std::int64_t>(1, elements_per_task / std::max<std::int64_t>(1, columns));
    for_blocks(context, rows, block, body);
}

}  // namespace escalier::kernels
