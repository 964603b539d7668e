// The executor's time. A training run measures with DeviceClock. The others run a schedule on set costs
// (cost_stage.h): RealClock really works; SleepClock in real time but without work, so that more ranks than
// cores can be watched; VirtualClock without time passing at all, exactly.
#pragma once

#include <vector>

#include "core/tensor_view.h"
#include "device/device.h"
#include "schedule/action.h"

namespace escalier::pipeline {

class Clock {
 public:
    virtual ~Clock() = default;
    virtual double now() = 0;  // the present, as a mark
    // Before a step that takes at most so many marks: it then allocates nothing for them.
    virtual void reserve(std::size_t /*marks*/) {}
    // Of a mark, in seconds: at once for marks of the host, for those of a device when it has passed them.
    virtual double seconds(double mark) { return mark; }
    // Round all that an action queues.
    virtual void enter(const schedule::Action& /*action*/) {}
    virtual void leave() {}
    virtual void spend(double seconds) = 0;  // lets an action of set cost pass
    // Before a message is sent. channel: a number of the sender's choice, one per channel.
    virtual void stamp(TensorView /*message*/, int /*channel*/) {}
    // When an action that needs the message has it. True: this clock moved forward to its arrival.
    virtual bool read(TensorView /*message*/) { return false; }
};

class RealClock : public Clock {
 public:
    double now() override;
    // Works until this thread has used so many seconds of its core.
    void spend(double seconds) override;
};

class SleepClock : public RealClock {
 public:
    SleepClock();  // sets the timer slack of this thread to 1 us
    void spend(double seconds) override;
};

// The time at which a device's queue passes the present place. What an action queues is named to profilers.
class DeviceClock : public Clock {
 public:
    explicit DeviceClock(device::Device& device) : device_(device) {}
    double now() override { return device_.mark(); }
    // The caller may take a few marks of its own beside the executor's.
    void reserve(std::size_t marks) override { device_.reserve_marks(marks + 16); }
    double seconds(double mark) override { return device_.seconds(static_cast<int>(mark)); }
    void spend(double) override;  // an InternalError: costs are set on the other clocks
    void enter(const schedule::Action& action) override;
    void leave() override { device_.end_range(); }

 private:
    device::Device& device_;
};

// Each rank has its own time, to which actions add their costs. A message carries in its first 8 bytes when
// it arrives: `transfer` seconds after its sender's time and the arrival before it on its channel, whichever
// is later. Messages hold at least 8 bytes; what else they carry arrives unchanged, so only stages that do
// not look at their inputs can run on it.
class VirtualClock : public Clock {
 public:
    explicit VirtualClock(double transfer) : transfer_(transfer) {}
    void restart();  // at 0, with nothing sent
    double now() override { return now_; }
    void spend(double seconds) override { now_ += seconds; }
    void stamp(TensorView message, int channel) override;
    bool read(TensorView message) override;

 private:
    double transfer_;
    double now_ = 0;
    std::vector<double> last_arrival_;  // by channel
};

}  // namespace escalier::pipeline
