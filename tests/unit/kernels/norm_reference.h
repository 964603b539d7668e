// LayerNorm and RMSNorm, and their gradients, over any number type.
#pragma once

#include "tests/unit/kernels/op_harness.h"

namespace escalier::kernels::test {

inline constexpr float norm_eps = 1e-5f;

template <class T>
struct NormInputs {
    std::int64_t rows, columns;
    Numbers<T> x, weight, bias;
};

// y of LayerNorm (centre) or RMSNorm; statistics get rstd.
template <class T>
Numbers<T> norm_reference(const NormInputs<T>& in, bool centre, Numbers<T>* means = nullptr,
                          Numbers<T>* rstds = nullptr) {
    using std::sqrt;
    Numbers<T> y(in.x.size());
    const T count(static_cast<double>(in.columns));
    for (std::int64_t row = 0; row < in.rows; ++row) {
        const T* x = &in.x[static_cast<std::size_t>(row * in.columns)];
        T mean(0.0), square(0.0);
        for (std::int64_t i = 0; i < in.columns && centre; ++i) mean += x[i];
        mean = mean / count;
        for (std::int64_t i = 0; i < in.columns; ++i) square += (x[i] - mean) * (x[i] - mean);
        const T rstd = T(1.0) / sqrt(square / count + T(norm_eps));
        if (means) means->push_back(mean);
        if (rstds) rstds->push_back(rstd);
        for (std::int64_t i = 0; i < in.columns; ++i) {
            const auto at = static_cast<std::size_t>(row * in.columns + i);
            y[at] = (x[i] - mean) * rstd * in.weight[static_cast<std::size_t>(i)];
            if (centre) y[at] = y[at] + in.bias[static_cast<std::size_t>(i)];
        }
    }
    return y;
}

struct NormGradients {
    Numbers<Tracked> dx, dweight, dbias;
};

inline NormGradients norm_gradients(const NormInputs<Tracked>& in, const Numbers<Tracked>& dy, bool centre) {
    Numbers<Tracked> means, rstds;
    norm_reference(in, centre, &means, &rstds);
    const auto columns = static_cast<std::size_t>(in.columns);
    NormGradients out{Numbers<Tracked>(in.x.size()), Numbers<Tracked>(columns), Numbers<Tracked>(columns)};
    for (std::size_t row = 0; row < means.size(); ++row) {
        Tracked mean_g, mean_gn;
        const auto normal = [&](std::size_t i) {
            return (in.x[row * columns + i] - means[row]) * rstds[row];
        };
        for (std::size_t i = 0; i < columns; ++i) {
            const Tracked d = dy[row * columns + i], g = d * in.weight[i];
            mean_g += g;
            mean_gn += g * normal(i);
            out.dweight[i] += d * normal(i);
            out.dbias[i] += d;
        }
        const Tracked count(static_cast<double>(columns));
        mean_g = centre ? mean_g / count : Tracked();
        mean_gn = mean_gn / count;
        for (std::size_t i = 0; i < columns; ++i)
            out.dx[row * columns + i] =
                (dy[row * columns + i] * in.weight[i] - mean_g - normal(i) * mean_gn) * rstds[row];
    }
    return out;
}

}  // namespace escalier::kernels::test
