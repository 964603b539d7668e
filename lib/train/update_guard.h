// Judges a step's loss and gradient norm before the weights are touched: not finite, or a spike (z-score
// against the recent steps that were updates). Every rank judges the same numbers, so all decide alike.
#pragma once

#include <cstdint>
#include <vector>

#include "config/job_spec.h"

namespace escalier::train {

enum class Verdict { update, nonfinite, spike };

// What a resumed run goes on with.
struct GuardState {
    std::vector<double> losses, norms;  // of the last updates, oldest first; none while spike_z is 0
    std::int64_t skipped = 0;           // steps without an update since the last one
};

class UpdateGuard {
 public:
    explicit UpdateGuard(const config::TrainConfig& config);

    // (value - mean) / standard deviation over the last spike_window updates; spikes are judged once that
    // many are there. Allocates nothing.
    Verdict judge(double loss, double grad_norm);

    // Of the last step judged; 0 while there is nothing to compare with.
    double loss_z() const { return loss_z_; }
    double norm_z() const { return norm_z_; }

    const GuardState& state() const { return state_; }
    void restore(const GuardState& state);

 private:
    void remember(std::vector<double>& window, double value);

    double threshold_;
    std::size_t window_;
    GuardState state_;
    double loss_z_ = 0, norm_z_ = 0;
};

}  // namespace escalier::train
