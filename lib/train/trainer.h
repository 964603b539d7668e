// A whole training run, from resolved spec to exit code.
#pragma once

#include <string>

#include "comm/mpi_env.h"
#include "config/job_spec.h"
#include "train/stop_request.h"

namespace escalier::train {

struct TrainOptions {
    StopRequest* stop = nullptr;  // never null in a run
    std::string save_weights;     // path of a safetensors file, written after the last step; empty: none
    // --resume auto where checkpoint.resume names a checkpoint: the run's own newest goes before that one
    bool own_run_first = false;
    bool dry_run = false;  // set everything up, print the start-up page, run no step
};

// spec: resolved for env.world(). Collective. Returns the exit code: 0, or 75 when it was asked to stop and
// has saved a checkpoint. Throws Errors that all ranks share (a refusal, a non-finite loss, a checkpoint that
// cannot be written); what only some ranks see ends the job through env.abort.
int train(const config::JobSpec& spec, comm::MpiEnv& env, const TrainOptions& options);

// Compute threads of this rank: run.threads, or its share of the node's cores, no more than it may use.
int compute_threads(const config::RunConfig& run, const comm::RankPlace& place);

}  // namespace escalier::train
