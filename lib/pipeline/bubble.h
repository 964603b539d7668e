// Why the ranks of a pipeline stood idle, from the recorded times of its actions.
//
// Every idle share here is (makespan - busy) / makespan, mean over pipeline ranks: makespan from the first
// action's start to the last one's end on any rank, busy the time inside actions. What lies around the
// actions (reductions, optimizer, data) is no part of it.
#pragma once

#include <cstdint>
#include <vector>

#include "pipeline/executor.h"
#include "schedule/action.h"
#include "schedule/program.h"

namespace escalier::pipeline {

using RankActions = std::vector<std::vector<ActionTime>>;  // of all pipeline ranks, in program order

// Each figure adds one cause to the one before it.
struct Bubble {
    double theory = 0;     // of the schedule: every stage takes the mean F, I, W (or B) of all stages
    double simulated = 0;  // each stage takes its own mean times
    double replayed = 0;   // each action takes its own recorded time; messages take none
    double measured = 0;

    double imbalance() const { return simulated - theory; }     // stages that differ
    double stragglers() const { return replayed - simulated; }  // actions that differ from their stage's mean
    double communication() const { return measured - replayed; }  // messages, and starting actions

    // Seconds, mean over steps: replayed, and from the first action's start to the last one's end.
    double replayed_makespan = 0;
    double measured_makespan = 0;
    std::int64_t steps = 0;
};

// Mean seconds of one stage's actions; 0 for kinds that it does not run.
struct StageTimes {
    int stage = 0;
    int copy = 0;  // of the model
    int pp_rank = 0;
    double forward = 0, backward = 0, input_gradient = 0, weight_gradient = 0;
};

// By place (schedule/action.h).
std::vector<StageTimes> stage_times(const schedule::Schedule& schedule, const RankActions& actions);

// Keeps the recorded times of the last steps.
class BubbleRecorder {
 public:
    // programs: of all pipeline ranks; both are kept by reference.
    BubbleRecorder(const schedule::Schedule& schedule, const std::vector<schedule::Program>& programs);

    void add(const RankActions& actions);  // allocates nothing
    std::int64_t steps() const;            // kept: up to 100, fewer where they would fill more than 16 MiB
    Bubble bubble() const;                 // over the steps kept; one at least

 private:
    struct Step {
        double makespan, idle_share;
    };
    const schedule::Schedule& schedule_;
    const std::vector<schedule::Program>& programs_;
    std::size_t actions_ = 0;        // of all ranks
    std::size_t added_ = 0;          // steps, ever
    std::vector<Step> kept_;         // a ring
    std::vector<double> durations_;  // [steps][actions of all ranks]
};

}  // namespace escalier::pipeline
