// Builds a schedule in simulated time: whenever a rank is free it starts the action that a guide puts first
// among those that can run. Micro-batches of one stage keep their order in F, I and W alike.
#pragma once

#include <limits>
#include <memory>
#include <vector>

#include "schedule/action.h"
#include "schedule/generators/placed_model.h"

namespace escalier::schedule::generators {

// What comes first: of two actions of one rank that can run the one with the smaller key, micro-batch mb of
// stage s at s * micro_batches + mb. W also runs when nothing else can, or when memory is needed; without
// keys of its own (empty) only then.
struct Guide {
    std::vector<double> forward, input_gradient, weight_gradient;
    // Per rank. While a message is on its way, W starts only if this part of it is done before that comes.
    std::vector<double> fill;
    // Per rank. An action that the guide puts before all that can run is awaited if it can run within this
    // part of the time of the one that would run instead.
    std::vector<double> patience;
    // When the first by key lacks only memory that W's would free: run these W's, not the next by key.
    bool free_memory_first = true;
    // A rank's F's keep the order of the guide, even when the first of them cannot run yet; likewise its I's.
    // The oldest micro-batch of a rank is exempt.
    bool strict = false;
    // Keys are times: fill and patience then also reckon with messages that are not on their way yet.
    bool foresees = false;
};

// Ends for every guide if no limit is below the model's need(). A rank takes in another micro-batch only if
// those before it can still be finished one after the other within its limit; so none waits for ever.
class ListScheduler {
 public:
    explicit ListScheduler(const PlacedModel& model);
    ~ListScheduler();
    // The makespan, infinite if it would be longer than `give_up`.
    double run(const Guide& guide, double give_up = std::numeric_limits<double>::infinity());
    // Of the last run that did not give up.
    const std::vector<std::vector<Action>>& ranks() const;
    // Its start times as the keys of a guide.
    void copy_times(Guide& guide) const;

 private:
    class Run;
    std::unique_ptr<Run> run_;
};

}  // namespace escalier::schedule::generators
