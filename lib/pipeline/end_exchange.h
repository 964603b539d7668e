// Once a step the pipeline ranks of a replica tell one another when their actions ran.
#pragma once

#include <vector>

#include "comm/communicator.h"
#include "comm/mpi_env.h"
#include "pipeline/step_split.h"
#include "schedule/program.h"

namespace escalier::pipeline {

class EndExchange {
 public:
    // Collective over `pp`; compares clocks between hosts. programs: of all pipeline ranks, by rank.
    EndExchange(comm::MpiEnv& env, comm::Communicator& pp, const std::vector<schedule::Program>& programs);

    // Collective over `pp`, after run_step(). Allocates nothing.
    StepSplit split(const StepTimes& own);

    // What all pipeline ranks told in the last split(), by rank, on this rank's clock.
    const std::vector<std::vector<ActionTime>>& actions() const { return actions_; }
    const ActionEnds& ends() const { return ends_; }  // of those

 private:
    comm::Communicator& pp_;
    double clock_offset_;  // to the clock of the first pipeline rank
    std::vector<std::vector<ActionTime>> actions_;
    std::size_t row_;  // numbers from one rank: its end, then start, end and work of its actions
    std::vector<double> own_, all_;
    ActionEnds ends_;
};

}  // namespace escalier::pipeline
