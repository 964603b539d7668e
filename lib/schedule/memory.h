// Bytes of activations that a schedule keeps alive.
#pragma once

#include <vector>

#include "schedule/action.h"

namespace escalier::schedule {

// Of one micro-batch, per stage; in any one unit. The three classes of slots (program.h).
struct ActivationBytes {
    std::vector<double> forward;           // from F to I (or B)
    std::vector<double> linear_inputs;     // from F to W (or B)
    std::vector<double> output_gradients;  // from I to W; during B

    // One unit per stage from F to W: what the published peaks count.
    static ActivationBytes unit(int stages);
};

// The most that is alive at once on each rank. An action's tensors count from its start, and what it frees
// counts until its end.
std::vector<double> peak_bytes(const Schedule& schedule, const ActivationBytes& bytes);

}  // namespace escalier::schedule
