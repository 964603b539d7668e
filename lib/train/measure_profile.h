// Measures the parts of a job's model on this machine, for `escalier plan --measure`.
#pragma once

#include "comm/mpi_env.h"
#include "config/profile.h"

namespace escalier::train {

struct MeasureOptions {
    int threads = 1;  // compute threads of this rank
    int repeats = 5;  // of which medians are taken
};

// Every tensor group of the world trains a one-stage model for itself, all at once, so that ranks that share
// cores and memory do so here too; it has as many of the job's layers as one pipeline rank holds. spec:
// resolved. Collective over the world, whose size must be a multiple of parallel.tp (ConfigError on all
// ranks); all return the same.
config::Profile measure_profile(const config::JobSpec& spec, comm::MpiEnv& env,
                                const MeasureOptions& options);

}  // namespace escalier::train
