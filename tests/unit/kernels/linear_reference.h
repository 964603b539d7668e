// Linear layers with GELU, and their gradients, over any number type.
#pragma once

#include "tests/unit/kernels/op_harness.h"

namespace escalier::kernels::test {

struct LinearSize {
    std::int64_t rows, n, k;
};
inline void PrintTo(const LinearSize& size, std::ostream* out) {
    *out << size.rows << " rows, " << size.k << " -> " << size.n;
}

// c[m,n] += a[m,k] b[k,n], each given by a function of row and column.
template <class T, class A, class B>
void multiply(Numbers<T>& c, std::int64_t m, std::int64_t n, std::int64_t k, A a, B b) {
    for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j)
            for (std::int64_t p = 0; p < k; ++p) c[static_cast<std::size_t>(i * n + j)] += a(i, p) * b(p, j);
}

template <class T>
T gelu(const T& z) {
    using std::tanh;
    const T u = T(0.79788456080286535588) * (z + T(0.044715) * z * z * z);
    return T(0.5) * z * (T(1.0) + tanh(u));
}
inline Tracked gelu_derivative(const Tracked& z) {
    const Tracked u = Tracked(0.79788456080286535588) * (z + Tracked(0.044715) * z * z * z);
    const Tracked t = tanh(u);
    const Tracked du = Tracked(0.79788456080286535588) * (Tracked(1.0) + Tracked(3 * 0.044715) * z * z);
    return Tracked(0.5) * (Tracked(1.0) + t) + Tracked(0.5) * z * (Tracked(1.0) - t * t) * du;
}

template <class T>
Numbers<T> product_and_bias(const LinearSize& s, const Numbers<T>& x, const Numbers<T>& w,
                            const Numbers<T>* bias) {
    Numbers<T> z(static_cast<std::size_t>(s.rows * s.n));
    multiply(
        z, s.rows, s.n, s.k, [&](auto i, auto p) { return x[static_cast<std::size_t>(i * s.k + p)]; },
        [&](auto p, auto j) { return w[static_cast<std::size_t>(j * s.k + p)]; });
    for (std::size_t i = 0; bias && i < z.size(); ++i) z[i] += (*bias)[i % static_cast<std::size_t>(s.n)];
    return z;
}

inline Numbers<Tracked> linear_input_gradient(const LinearSize& s, const Floats& dy, const Floats& w) {
    Numbers<Tracked> dx(static_cast<std::size_t>(s.rows * s.k));
    multiply(
        dx, s.rows, s.k, s.n,
        [&](auto i, auto p) { return Tracked(dy[static_cast<std::size_t>(i * s.n + p)]); },
        [&](auto p, auto j) { return Tracked(w[static_cast<std::size_t>(p * s.k + j)]); });
    return dx;
}

inline Numbers<Tracked> linear_weight_gradient(const LinearSize& s, const Floats& dy, const Floats& x) {
    Numbers<Tracked> dweight(static_cast<std::size_t>(s.n * s.k));
    multiply(
        dweight, s.n, s.k, s.rows,
        [&](auto i, auto p) { return Tracked(dy[static_cast<std::size_t>(p * s.n + i)]); },
        [&](auto p, auto j) { return Tracked(x[static_cast<std::size_t>(p * s.k + j)]); });
    return dweight;
}

}  // namespace escalier::kernels::test
