// Runs a program on this rank's stages and channels. It knows no schedule by name and never reorders.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "comm/activity.h"
#include "device/arena.h"
#include "model/stage.h"
#include "pipeline/channels.h"
#include "pipeline/clock.h"
#include "schedule/program.h"

namespace escalier::pipeline {

// When one action ran, in seconds of the executor's clock.
struct ActionTime {
    schedule::Action action;
    double start = 0;
    double end = 0;
    double work = 0;  // inside its own segments: start and end of an overlapped pair are those of both
};

// Waiting for one message: [start, end) is the time that this rank stood still for it.
struct WaitTime {
    schedule::Action action;  // the action that needed the message; at the step's end the one that sent it
    bool gradient = false;    // message kind
    bool sending = false;     // for an earlier message to be taken, so that its buffer is free
    double start = 0;
    double end = 0;
};

// Segments of one action and one type that ran without a break.
struct StretchTime {
    std::size_t action = 0;   // its place in StepTimes::actions
    bool collective = false;  // of the tensor group; else compute
    double start = 0;
    double end = 0;
};

// One message, from the moment its send or receive was started until this rank saw that it was complete.
struct MessageTime {
    schedule::Action action;  // of this rank: that filled the buffer, or uses it
    bool gradient = false;
    bool sending = false;
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
    std::vector<StretchTime> stretches;
    std::vector<MessageTime> messages;  // where they are recorded
};

class Executor {
 public:
    // stages: one per chunk of the program. storage and boundary: type and shape [R,C] of activations between
    // stages.
    // Takes its boundary buffers from `arena`; with a measuring arena it only counts and must not run.
    // reduce: called when a chunk's main gradients are complete. poll: called between segments (the reducer's
    // progress). Either may be null. All times are of `clock`. activity: is told the action under way, for
    // the watchdog; may be null.
    Executor(schedule::Program program, std::vector<model::Stage*> stages, DType storage, Shape boundary,
             device::Arena& arena, Channels& channels, Clock& clock, std::function<void(int chunk)> reduce,
             std::function<void()> poll, comm::Activity* activity = nullptr);
    ~Executor();

    // Returns when all of the program is done, or queued on a device, and so are all sends. Allocates
    // nothing.
    void run_step();
    const StepTimes& times();  // of the last step, once the clock knows them

    // Takes memory for the times of a step's messages; more_marks: that others take of the clock in a step.
    void reserve_message_times(std::size_t more_marks);
    void record_messages(bool record);  // from the next step on

 private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace escalier::pipeline
