#include "train/rounding.h"

#include <algorithm>
#include <cmath>

namespace escalier::train {

namespace {

constexpr double lambda = 8;

}  // namespace

Rounding::Rounding(const config::JobSpec& spec) {
    const double unit = spec.train.dtype == "bf16" ? std::exp2(-8) : std::exp2(-24);
    const double ops = 8.0 * static_cast<double>(spec.model.num_layers) + 8.0;
    const double tokens = static_cast<double>(spec.train.global_batch * spec.train.seq_len);
    value_ = lambda * unit * std::sqrt(ops);
    sum_ = lambda * unit * std::sqrt(ops * tokens);
    whole_ = std::min(2 * sum_, 0.25);
    // The contract's figures in fp32; what coarser types err by averages out over tokens.
    const double averaged = lambda * unit / std::sqrt(tokens);
    loss_ = std::max(1e-5, 2 * averaged + unit / 16);
    norm_ = std::max(1e-4, averaged * std::sqrt(ops));
}

double Rounding::rho(Quantity quantity) const {
    switch (quantity) {
        case Quantity::activation:
            return value_;
        case Quantity::second_moment:
            return 2 * sum_;
        default:
            return sum_;
    }
}

double Rounding::whole() const {
    return whole_;
}

double Rounding::loss() const {
    return loss_;
}

double Rounding::norm() const {
    return norm_;
}

}  // namespace escalier::train
