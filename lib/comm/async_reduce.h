// All-reduces that are started now and finished later: one after the other in the order of their start, which
// is the same on every rank. Carried forward by the main thread's polls and by the progress thread.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>

#include "comm/communicator.h"
#include "comm/progress.h"
#include "comm/reduce_lane.h"
#include "comm/watchdog.h"

namespace escalier::comm {

class AsyncReduceQueue final : public Pollable {
 public:
    // lane: null for a group of one rank, where nothing is to be done. members: the group, to the watchdog.
    AsyncReduceQueue(std::unique_ptr<ReduceLane> lane, const RankSet& members, Progress& progress,
                     Watchdog& watchdog);
    ~AsyncReduceQueue() override;

    std::unique_ptr<AllReduce> make(TensorView x, TensorView scratch);  // outlived by the queue
    std::int64_t scratch_elements(std::int64_t elements) const {
        return lane_ ? lane_->scratch_elements(elements) : 0;
    }
    bool poll() override;

 private:
    class Operation;
    void start(Operation& operation);
    bool advance_head();

    std::unique_ptr<ReduceLane> lane_;
    RankSet members_;
    Progress& progress_;
    Watchdog& watchdog_;
    std::mutex mutex_;           // guards the lane and the list of started operations
    Operation* head_ = nullptr;  // under way
    Operation* tail_ = nullptr;
};

}  // namespace escalier::comm
