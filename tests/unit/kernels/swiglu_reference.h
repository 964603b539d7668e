// SwiGLU, written once over the number type, and its gradient.
#pragma once

#include "op_harness.h"

namespace escalier::kernels::test {

template <class T>
Numbers<T> swiglu_reference(std::int64_t rows, std::int64_t columns, const Numbers<T>& gate_up) {
    using std::exp;
    Numbers<T> y;
    for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t i = 0; i < columns; ++i) {
            const auto gate = static_cast<std::size_t>(row * 2 * columns + i);
            const T z = gate_up[gate];
            y.push_back(z / (T(1.0) + exp(-z)) * gate_up[gate + static_cast<std::size_t>(columns)]);
        }
    return y;
}

inline Numbers<Tracked> swiglu_gradient(std::int64_t rows, std::int64_t columns,
                                        const Numbers<Tracked>& gate_up, const Numbers<Tracked>& dy) {
    Numbers<Tracked> out(gate_up.size());
    for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t i = 0; i < columns; ++i) {
            const auto at = static_cast<std::size_t>(row * 2 * columns + i);
            const std::size_t up_at = at + static_cast<std::size_t>(columns);
            const Tracked z = gate_up[at], d = dy[static_cast<std::size_t>(row * columns + i)];
            const Tracked s = Tracked(1.0) / (Tracked(1.0) + exp(-z));
            out[at] = d * gate_up[up_at] * (s + z * s * (Tracked(1.0) - s));
            out[up_at] = d * z * s;
        }
    return out;
}

}  // namespace escalier::kernels::test
