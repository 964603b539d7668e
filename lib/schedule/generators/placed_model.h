// A model on its ranks, as schedules are planned for it: one copy, one placement, times, bytes and limits.
#pragma once

#include <vector>

#include "schedule/action.h"
#include "schedule/generators.h"

namespace escalier::schedule::generators {

// Limits hold and times differ up to rounding.
inline constexpr double rounding = 1e-9;

struct PlacedModel {
    PlacedModel(const GenerateOptions& options, Placement placement, const StageCosts& costs);

    Schedule shape;  // without actions
    int stages;
    StageCosts costs;
    std::vector<int> rank_of;                 // per stage
    std::vector<std::vector<int>> stages_of;  // per rank, ascending
    std::vector<double> limits;               // per rank, infinite without a limit
    // Per stage: the most bytes on its rank while one micro-batch alone goes from this stage's I to its end
    // there, W following each I.
    std::vector<double> need_from;

    // Bytes that one micro-batch alone needs on a rank.
    double need(int rank) const;
    double work(int rank) const;         // time of one micro-batch's actions
    double longest_work() const;         // of all ranks
    double activation(int stage) const;  // bytes from F to I
    double waiting(int stage) const;     // bytes from I to W
    double transfer(int from_stage, int to_stage) const;
    double duration(ActionKind kind, int stage) const;
};

// A makespan that no schedule of the model falls below.
double lower_bound(const PlacedModel& model);

}  // namespace escalier::schedule::generators
