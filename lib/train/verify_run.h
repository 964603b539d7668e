// One run of two sides, step by step, until something differs.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "train/verify.h"

namespace escalier::train {

// Whether a sample of the run, counted from 0, is hidden from a side: its targets do not count then, though
// the loss is divided as if they did.
using HiddenSamples = std::function<bool(std::int64_t sample)>;

struct VerifyRun {
    bool bits = false;
    std::int64_t steps = 0;
    bool record = false;        // the residual stream
    HiddenSamples hidden = {};  // from side 0
};

// Evidence of step 0 (initial weights) and of each step, up to the first that differs or the last.
std::vector<StepEvidence> run_sides(const std::array<config::JobSpec, 2>& specs, comm::MpiEnv& env,
                                    const data::SampleReader& reader,
                                    const std::array<AssemblyOptions, 2>& options, const VerifyRun& run);

}  // namespace escalier::train
