// The executor's time. With RealClock it measures what happens. The other two run a schedule on set costs
// (cost_stage.h): SleepClock in real time but without work, so that more ranks than cores can be watched;
// VirtualClock without time passing at all, exactly.
#pragma once

#include <vector>

#include "core/tensor_view.h"

namespace escalier::pipeline {

class Clock {
 public:
    virtual ~Clock() = default;
    virtual double now() const = 0;          // seconds
    virtual void spend(double seconds) = 0;  // lets an action of set cost pass
    // Before a message is sent. channel: a number of the sender's choice, one per channel.
    virtual void stamp(TensorView /*message*/, int /*channel*/) {}
    // When an action that needs the message has it. True: this clock moved forward to its arrival.
    virtual bool read(TensorView /*message*/) { return false; }
};

class RealClock : public Clock {
 public:
    double now() const override;
    // Works until this thread has used so many seconds of its core.
    void spend(double seconds) override;
};

class SleepClock : public RealClock {
 public:
    SleepClock();  // sets the timer slack of this thread to 1 us
    void spend(double seconds) override;
};

// Each rank has its own time, to which actions add their costs. A message carries in its first 8 bytes when
// it arrives: `transfer` seconds after its sender's time and the arrival before it on its channel, whichever
// is later. Messages hold at least 8 bytes; what else they carry arrives unchanged, so only stages that do
// not look at their inputs can run on it.
class VirtualClock : public Clock {
 public:
    explicit VirtualClock(double transfer) : transfer_(transfer) {}
    void restart();  // at 0, with nothing sent
    double now() const override { return now_; }
    void spend(double seconds) override { now_ += seconds; }
    void stamp(TensorView message, int channel) override;
    bool read(TensorView message) override;

 private:
    double transfer_;
    double now_ = 0;
    std::vector<double> last_arrival_;  // by channel
};

}  // namespace escalier::pipeline
