// Stages that compute nothing: an action lets its set duration pass on a clock. With them the executor and
// its channels run any schedule at any size.
#pragma once

#include <memory>
#include <vector>

#include "model/stage.h"
#include "pipeline/clock.h"
#include "schedule/program.h"
#include "schedule/simulate.h"

namespace escalier::pipeline {

class CostStages {
 public:
    // The stages of one rank's program. durations: in seconds, per stage; transfer is the clock's business.
    CostStages(const schedule::Program& program, const schedule::Durations& durations, Clock& clock);
    ~CostStages();

    std::vector<model::Stage*> stages() const;  // one per chunk

    // Most activations that were alive at once, as schedule::Proof counts them.
    int peak_until_weight() const;
    int peak_until_input() const;

 private:
    struct Rank;
    class OneStage;
    std::unique_ptr<Rank> rank_;
    std::vector<std::unique_ptr<OneStage>> stages_;
};

}  // namespace escalier::pipeline
