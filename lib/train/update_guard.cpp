#include "train/update_guard.h"

#include <cmath>

namespace escalier::train {

namespace {

// Of one value against a full window. Equal values have no deviation to measure by.
double z_score(const std::vector<double>& window, double value) {
    const auto n = static_cast<double>(window.size());
    double sum = 0, squares = 0;
    for (const double x : window) sum += x;
    const double mean = sum / n;
    for (const double x : window) squares += (x - mean) * (x - mean);
    const double deviation = std::sqrt(squares / n);
    return deviation > 0 ? (value - mean) / deviation : 0;
}

}  // namespace

UpdateGuard::UpdateGuard(const config::TrainConfig& config)
    : threshold_(config.spike_z), window_(static_cast<std::size_t>(config.spike_window)) {
    if (threshold_ == 0) return;
    state_.losses.reserve(window_ + 1);
    state_.norms.reserve(window_ + 1);
}

void UpdateGuard::restore(const GuardState& state) {
    state_.skipped = state.skipped;
    if (threshold_ == 0) return;
    for (const double loss : state.losses) remember(state_.losses, loss);
    for (const double norm : state.norms) remember(state_.norms, norm);
}

void UpdateGuard::remember(std::vector<double>& window, double value) {
    if (window.size() == window_) window.erase(window.begin());
    window.push_back(value);
}

Verdict UpdateGuard::judge(double loss, double grad_norm) {
    loss_z_ = norm_z_ = 0;
    Verdict verdict = Verdict::update;
    if (!std::isfinite(loss) || !std::isfinite(grad_norm)) {
        verdict = Verdict::nonfinite;
    } else if (threshold_ > 0 && state_.losses.size() == window_) {
        loss_z_ = z_score(state_.losses, loss);
        norm_z_ = z_score(state_.norms, grad_norm);
        if (loss_z_ > threshold_ || norm_z_ > threshold_) verdict = Verdict::spike;
    }
    if (verdict != Verdict::update) {
        ++state_.skipped;
        return verdict;
    }
    state_.skipped = 0;
    if (threshold_ > 0) {
        remember(state_.losses, loss);
        remember(state_.norms, grad_norm);
    }
    return verdict;
}

}  // namespace escalier::train
