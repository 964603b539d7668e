#include "kernels/embedding.h"

#include <cstring>

#include "kernels/common/blocks.h"
#include "kernels/common/cpu_twins.h"
#include "kernels/common/rows.h"

namespace escalier::kernels::cpu {
void embedding_forward(const OpContext& context, TensorView out, TensorView tokens, TensorView table,
                       std::int64_t vocab_begin) {
    const std::int64_t rows = tokens.elements(), columns = columns_of(table), vocabulary = rows_of(table);
    ESCALIER_CHECK(out.elements() == rows * columns, "shapes differ");
    float* to = out.as<float>();
    const float* from = table.as<float>();
    const std::int32_t* ids = tokens.as<std::int32_t>();
    const std::size_t bytes = static_cast<std::size_t>(columns) * sizeof(float);
    for_row_blocks(context, rows, columns, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t row = begin; row < end; ++row) {
            const std::int64_t id = ids[row] - vocab_begin;
            if (id >= 0 && id < vocabulary)
                std::memcpy(to + row * columns, from + id * columns, bytes);
            else
                std::memset(to + row * columns, 0, bytes);
        }
    });
}

void embedding_backward(const OpContext& context, TensorView dtable, TensorView tokens, TensorView dout,
                        std::int64_t vocab_begin, Accumulate accumulate) {
    const std::int64_t rows = tokens.elements(), columns = columns_of(dtable), vocabulary = rows_of(dtable);
    ESCALIER_CHECK(dout.elements() == rows * columns, "shapes differ");
    if (accumulate == Accumulate::overwrite) fill(context, dtable, 0.0f);
    float* to = dtable.as<float>();
    const float* from = dout.as<float>();
    const std::int32_t* ids = tokens.as<std::int32_t>();
    // A task owns columns: tokens repeat, columns do not.
    constexpr std::int64_t columns_per_task = 64;
    for_blocks(context, columns, columns_per_task, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t row = 0; row < rows; ++row) {
            const std::int64_t id = ids[row] - vocab_begin;
            if (id >= 0 && id < vocabulary)
                add_row(to + id * columns + begin, from + row * columns + begin, end - begin);
        }
    });
}

void position_forward(const OpContext& context, TensorView x, TensorView positions, std::int64_t sequence) {
    const std::int64_t columns = columns_of(x);
    ESCALIER_CHECK(columns_of(positions) == columns && rows_of(positions) >= std::min(sequence, rows_of(x)),
                   "positions do not fit");
    float* to = x.as<float>();
    const float* from = positions.as<float>();
    for_row_blocks(context, rows_of(x), columns, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t row = begin; row < end; ++row)
            add_row(to + row * columns, from + row % sequence * columns, columns);
    });
}

void position_backward(const OpContext& context, TensorView dpositions, TensorView dout,
                       std::int64_t sequence, Accumulate accumulate) {
    const std::int64_t columns = columns_of(dpositions), rows = rows_of(dout);
    ESCALIER_CHECK(columns_of(dout) == columns && rows_of(dpositions) >= std::min(sequence, rows),
                   "positions do not fit");
    float* to = dpositions.as<float>();
    const float* from = dout.as<float>();
    for_row_blocks(context, rows_of(dpositions), columns, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t position = begin; position < end; ++position) {
            float* sum = to + position * columns;
            if (accumulate == Accumulate::overwrite) std::fill_n(sum, columns, 0.0f);
            if (position >= sequence) continue;
            for (std::int64_t row = position; row < rows; row += sequence)
                add_row(sum, from + row * columns, columns);
        }
    });
}

}  // namespace escalier::kernels::cpu
