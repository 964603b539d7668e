// Runs a program on this rank's stages and channels. It knows no schedule by name and never reorders.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "comm/mpi_env.h"
#include "device/arena.h"
#include "model/stage.h"
#include "schedule/program.h"

namespace escalier::pipeline {

// The channels of one rank's stages, created collectively at start: one per stage edge and kind.
class Channels;

// When one action ran, on the clock of core (seconds).
struct ActionTime {
    schedule::Action action;
    double start = 0;
    double end = 0;
};

// Waiting for one message: [start, end) is the time that this rank stood still for it.
struct WaitTime {
    schedule::Action action;  // the action that needed the message
    bool gradient = false;    // message kind
    double start = 0;
    double end = 0;
};

// Collectives of the tensor group inside actions and their waits count as communication.
struct StepTimes {
    double start = 0;
    double end = 0;
    double compute = 0;               // seconds inside compute segments
    double tensor_collectives = 0;    // seconds inside collective segments
    std::vector<ActionTime> actions;  // capacity fixed at construction
    std::vector<WaitTime> waits;
};

class Executor {
 public:
    // stages: one per chunk of the program. boundary: shape [R,C] of activations between stages.
    // Takes its boundary buffers from `arena`. reduce: called when a chunk's main gradients are complete.
    // poll: called between segments (the reducer's progress).
    Executor(schedule::Program program, std::vector<model::Stage*> stages, Shape boundary,
             device::Arena& arena, Channels& channels, std::function<void(int chunk)> reduce,
             std::function<void()> poll);
    ~Executor();

    void run_step();                 // allocates nothing
    const StepTimes& times() const;  // of the last step

 private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace escalier::pipeline
