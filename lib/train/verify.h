// Trains one job on two grids from the same weights and data, and says whether they compute the same thing.
//
// Where only pp, schedule, chunks, layout or recompute differ, equality to the bit is demanded (design:
// "Numerics contract"); else what rounding explains is allowed (rounding.h).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/mpi_env.h"
#include "train/assembly.h"
#include "train/diagnose.h"

namespace escalier::train {

struct VerifyOptions {
    std::int64_t steps = 3;
    bool activations = false;  // compare the residual stream too; keeps all of it for a step
    // Of each side; hooks are for tests.
    std::array<AssemblyOptions, 2> sides;
};

struct VerifyRow {  // all tensors of one quantity in one step
    std::int64_t step = 0;
    std::string what;  // "gradients", "loss"
    std::size_t tensors = 0, differing = 0;
    std::string worst;      // name of the one that lies furthest out, and where in it
    double difference = 0;  // there: |a - b|
    double allowed = 0;     // there: the rounding expected
    double ratio = 0;       // difference / allowed
};

struct VerifyResult {
    bool equal = true;
    bool bits = false;  // equality to the bit was demanded
    std::vector<VerifyRow> rows;
    std::string first;                     // the first thing that differs; empty: nothing
    std::int64_t step = 0;                 // where; 0: the initial weights
    Diagnosis diagnosis;                   // where something differs
    std::vector<std::string> experiments;  // what was tried to find out more, one line each
};

// Whether two resolved specs must agree to the bit.
bool promises_bits(const config::JobSpec& a, const config::JobSpec& b);

// Throws ConfigError if the two cannot be compared on `ranks` ranks (too few of them, other global batches,
// other models), naming `--grid`.
void require_comparable(const std::array<config::JobSpec, 2>& specs, std::int64_t ranks, std::int64_t steps);

// specs: resolved, each for its own grid. Side by side where the world has ranks for both, else both on the
// first ranks, in turn. Collective over the world, the same result on all ranks.
VerifyResult verify(const std::array<config::JobSpec, 2>& specs, comm::MpiEnv& env,
                    const data::SampleReader& reader, const VerifyOptions& options);

}  // namespace escalier::train
