// What a rank is doing at this moment. Announced by the main thread at the cost of two stores, read by the
// watchdogs: its own, which tells the other ranks, and those of its node, in whose shared memory it lies, so
// that they know it even of a rank that has stopped.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "core/clock.h"

namespace escalier::comm {

enum class Doing : std::uint8_t {
    forward,  // these four with stage and micro-batch
    backward,
    input_gradients,
    weight_gradients,
    start_up,
    loading_data,
    reducing_gradients,
    optimizer,
    reporting,
    validation,
    saving,
    loading_checkpoint,
    drawing,  // with the token's number in the text as micro-batch
};

struct ActivityReport {
    Doing doing = Doing::start_up;
    int stage = 0, micro_batch = 0;
    double seconds = 0;    // since it began
    bool waiting = false;  // for other ranks

    bool is_action() const { return doing <= Doing::weight_gradients; }
    std::string text() const;  // "F(4,3)": stage 4, micro-batch 3; "the optimizer"
};

class Activity {
 public:
    Activity() { begin(Doing::start_up); }

    // From one thread. Going on with the same does not begin anew.
    void begin(Doing doing, int stage = 0, int micro_batch = 0) {
        const std::uint64_t what = static_cast<std::uint64_t>(doing) << 56 |
                                   static_cast<std::uint64_t>(stage & 0xffffff) << 32 |
                                   static_cast<std::uint32_t>(micro_batch);
        if (what == what_.load(std::memory_order_relaxed)) return;
        since_.store(now_seconds(), std::memory_order_relaxed);
        what_.store(what, std::memory_order_release);
    }

    void set_waiting(bool waiting) { waiting_.store(waiting, std::memory_order_relaxed); }

    ActivityReport report() const;  // from any thread and process

 private:
    std::atomic<std::uint64_t> what_{~std::uint64_t{0}};
    std::atomic<double> since_{0};
    std::atomic<bool> waiting_{false};
    static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
                  std::atomic<double>::is_always_lock_free);
};

}  // namespace escalier::comm
