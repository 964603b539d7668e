// RoPE and the norms of query and key heads, written once over the number type.
#pragma once

#include "qkv_size.h"

namespace escalier::kernels::test {

// Rotates by the angles of `theta`, which are rounded to fp32 as PyTorch's are; direction -1 rotates back.
inline Numbers<Tracked> rotated(const QkvSize& s, const Floats& qkv, double theta, double direction) {
    Numbers<Tracked> out = numbers<Tracked>(qkv);
    const std::int64_t half = s.head_size / 2;
    for (std::int64_t row = 0; row < s.rows(); ++row)
        for (std::int64_t head = 0; head < s.heads + s.kv_heads; ++head)
            for (std::int64_t m = 0; m < half; ++m) {
                const auto exponent = static_cast<float>(m) / static_cast<float>(half);
                const float frequency = 1.0f / static_cast<float>(std::pow(theta, double{exponent}));
                const double angle = static_cast<float>(row % s.sequence) * frequency;
                const Tracked c(std::cos(angle), 1.0), sine(direction * std::sin(angle), 1.0);
                const auto low = static_cast<std::size_t>(row * s.columns() + head * s.head_size + m);
                const std::size_t high = low + static_cast<std::size_t>(half);
                const Tracked a(qkv[low]), b(qkv[high]);
                out[low] = a * c - b * sine;
                out[high] = b * c + a * sine;
            }
    return out;
}

inline constexpr float qk_norm_eps = 1e-6f;

// out, then rstd of every normed head, for double or Tracked.
template <class T>
Numbers<T> qk_norm_reference(const QkvSize& s, const Numbers<T>& qkv, const Numbers<T>& wq,
                             const Numbers<T>& wk, Numbers<T>* rstds = nullptr) {
    using std::sqrt;
    Numbers<T> out = qkv;
    for (std::int64_t row = 0; row < s.rows(); ++row)
        for (std::int64_t head = 0; head < s.heads + s.kv_heads; ++head) {
            const auto first = static_cast<std::size_t>(row * s.columns() + head * s.head_size);
            const auto size = static_cast<std::size_t>(s.head_size);
            T square(0.0);
            for (std::size_t i = 0; i < size; ++i) square += qkv[first + i] * qkv[first + i];
            const T rstd = T(1.0) / sqrt(square / T(static_cast<double>(size)) + T(qk_norm_eps));
            if (rstds) rstds->push_back(rstd);
            for (std::size_t i = 0; i < size; ++i)
                out[first + i] = qkv[first + i] * rstd * (head < s.heads ? wq : wk)[i];
        }
    return out;
}

struct QkGradients {
    Numbers<Tracked> dqkv, dwq, dwk;
};

inline QkGradients qk_gradients(const QkvSize& s, const Numbers<Tracked>& qkv, const Numbers<Tracked>& wq,
                                const Numbers<Tracked>& wk, const Numbers<Tracked>& dout) {
    Numbers<Tracked> rstds;
    qk_norm_reference(s, qkv, wq, wk, &rstds);
    const auto size = static_cast<std::size_t>(s.head_size);
    QkGradients out{dout, Numbers<Tracked>(size), Numbers<Tracked>(size)};
    std::size_t at_rstd = 0;
    for (std::int64_t row = 0; row < s.rows(); ++row)
        for (std::int64_t head = 0; head < s.heads + s.kv_heads; ++head) {
            const auto first = static_cast<std::size_t>(row * s.columns() + head * s.head_size);
            const Numbers<Tracked>& w = head < s.heads ? wq : wk;
            Numbers<Tracked>& dw = head < s.heads ? out.dwq : out.dwk;
            const Tracked rstd = rstds[at_rstd++];
            Tracked mean;
            for (std::size_t i = 0; i < size; ++i) {
                const Tracked normal = qkv[first + i] * rstd;
                mean += dout[first + i] * w[i] * normal;
                dw[i] += dout[first + i] * normal;
            }
            mean = mean / Tracked(static_cast<double>(size));
            for (std::size_t i = 0; i < size; ++i)
                out.dqkv[first + i] = (dout[first + i] * w[i] - qkv[first + i] * rstd * mean) * rstd;
        }
    return out;
}

}  // namespace escalier::kernels::test
