// The virtual clock's rules: actions add their costs, messages carry their arrivals, a channel moves one
// message after the other.
#include "pipeline/clock.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace escalier::pipeline {
namespace {

struct Message {
    float memory[4] = {0, 0, 7, 8};
    TensorView view() { return TensorView(memory, DType::f32, {1, 4}); }
};

TEST(VirtualClock, AMessageArrivesAfterItsTransfer) {
    VirtualClock sender(0.25), receiver(0.25);
    Message message;
    sender.spend(1);
    sender.stamp(message.view(), 0);
    EXPECT_EQ(sender.now(), 1);  // sending costs the sender nothing
    EXPECT_TRUE(receiver.read(message.view()));
    EXPECT_EQ(receiver.now(), 1.25);
    EXPECT_EQ(message.memory[2], 7);  // only the first 8 bytes are the clock's
}

TEST(VirtualClock, NeverGoesBack) {
    VirtualClock sender(0.5), receiver(0.5);
    Message message;
    sender.spend(1);
    sender.stamp(message.view(), 0);
    receiver.spend(2);
    EXPECT_FALSE(receiver.read(message.view()));
    EXPECT_EQ(receiver.now(), 2);
}

TEST(VirtualClock, MessagesOfAChannelMoveOneAfterTheOther) {
    VirtualClock sender(1);
    Message first, second, other;
    sender.stamp(first.view(), 3);
    sender.stamp(second.view(), 3);  // at the same time: waits for the first
    sender.stamp(other.view(), 2);   // another channel does not
    VirtualClock receiver(1);
    receiver.read(first.view());
    EXPECT_EQ(receiver.now(), 1);
    receiver.read(second.view());
    EXPECT_EQ(receiver.now(), 2);
    VirtualClock elsewhere(1);
    elsewhere.read(other.view());
    EXPECT_EQ(elsewhere.now(), 1);
}

TEST(VirtualClock, RestartsWithNothingSent) {
    VirtualClock clock(1);
    Message message;
    clock.spend(5);
    clock.stamp(message.view(), 0);
    clock.restart();
    EXPECT_EQ(clock.now(), 0);
    clock.stamp(message.view(), 0);
    VirtualClock receiver(1);
    receiver.read(message.view());
    EXPECT_EQ(receiver.now(), 1);
}

TEST(VirtualClock, RefusesMessagesWithoutRoomForATime) {
    float small = 0;
    VirtualClock clock(1);
    EXPECT_THROW(clock.stamp(TensorView(&small, DType::f32, {1, 1}), 0), InternalError);
}

TEST(RealClocks, AnActionTakesItsTimeAtLeast) {
    RealClock real;
    SleepClock sleep;
    for (Clock* clock : {static_cast<Clock*>(&real), static_cast<Clock*>(&sleep)}) {
        const double start = clock->now();
        clock->spend(0.002);
        EXPECT_GE(clock->now() - start, 0.002 - 1e-6);
    }
}

}  // namespace
}  // namespace escalier::pipeline
