#include "pipeline/clock.h"

#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "core/check.h"
#include "core/clock.h"

namespace escalier::pipeline {

namespace {

double thread_cpu_seconds() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

double RealClock::now() {
    return now_seconds();
}

void RealClock::spend(double seconds) {
    const double end = thread_cpu_seconds() + seconds;
    volatile double x = 1;
    while (thread_cpu_seconds() < end)
        for (int i = 0; i < 1000; ++i) x = x * 1.0000001;
}

void DeviceClock::spend(double) {
    throw InternalError("a device's clock measures work; it cannot spend set costs");
}

void DeviceClock::enter(const schedule::Action& action) {
    static constexpr char letters[] = {'F', 'B', 'I', 'W'};
    char name[64];
    std::snprintf(name, sizeof name, "%c of stage %d, micro-batch %d", letters[static_cast<int>(action.kind)],
                  action.stage, action.micro_batch);
    device_.begin_range(name);
}

SleepClock::SleepClock() {
    constexpr unsigned long nanoseconds = 1000;
    prctl(PR_SET_TIMERSLACK, nanoseconds);
}

void SleepClock::spend(double seconds) {
    timespec deadline{};
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    constexpr std::int64_t second = 1'000'000'000;
    const std::int64_t nanoseconds = deadline.tv_nsec + std::llround(seconds * 1e9);
    deadline.tv_sec += nanoseconds / second;
    deadline.tv_nsec = nanoseconds % second;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, nullptr) == EINTR) {
    }
}

void VirtualClock::restart() {
    now_ = 0;
    last_arrival_.clear();
}

void VirtualClock::stamp(TensorView message, int channel) {
    ESCALIER_CHECK(message.bytes() >= sizeof(double), "a message has no room for its time");
    const auto c = static_cast<std::size_t>(channel);
    if (c >= last_arrival_.size()) last_arrival_.resize(c + 1, 0);
    last_arrival_[c] = std::max(now_, last_arrival_[c]) + transfer_;
    std::memcpy(message.data(), &last_arrival_[c], sizeof(double));
}

bool VirtualClock::read(TensorView message) {
    double arrival = 0;
    std::memcpy(&arrival, message.data(), sizeof arrival);
    if (arrival <= now_) return false;
    now_ = arrival;
    return true;
}

}  // namespace escalier::pipeline
