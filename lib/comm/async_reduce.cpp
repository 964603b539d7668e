#include "comm/async_reduce.h"

#include <utility>

#include "comm/wait.h"
#include "core/check.h"

namespace escalier::comm {

class AsyncReduceQueue::Operation final : public AllReduce {
 public:
    Operation(AsyncReduceQueue& queue, TensorView x, TensorView scratch)
        : queue_(queue), x_(x), scratch_(scratch) {}
    ~Operation() override {
        Backoff backoff;
        while (!finished_.load(std::memory_order_acquire)) {
            queue_.poll();
            backoff.pause();
        }
    }

    void start() override { queue_.start(*this); }
    bool done() override {
        if (!finished_.load(std::memory_order_acquire)) queue_.poll();
        if (!finished_.load(std::memory_order_acquire)) return false;
        if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
        return true;
    }
    void wait(const char* label) override {
        wait_until(queue_.watchdog_, label, queue_.members_, [&] {
            const bool moved = !finished_.load(std::memory_order_acquire) && queue_.poll();
            return done() ? Polled::done : moved ? Polled::moved : Polled::waiting;
        });
    }

 private:
    friend class AsyncReduceQueue;
    AsyncReduceQueue& queue_;
    TensorView x_;
    TensorView scratch_;
    bool begun_ = false;
    Operation* next_ = nullptr;
    std::exception_ptr error_;  // set before finished_
    std::atomic<bool> finished_{true};
};

AsyncReduceQueue::AsyncReduceQueue(std::unique_ptr<ReduceLane> lane, const RankSet& members,
                                   Progress& progress, Watchdog& watchdog)
    : lane_(std::move(lane)), members_(members), progress_(progress), watchdog_(watchdog) {
    if (lane_) progress_.add(*this);
}

AsyncReduceQueue::~AsyncReduceQueue() {
    if (lane_) progress_.remove(*this);
}

std::unique_ptr<AllReduce> AsyncReduceQueue::make(TensorView x, TensorView scratch) {
    ESCALIER_CHECK(can_combine(Combine::sum, x.dtype()), "only f32, f64 and bf16 are summed");
    ESCALIER_CHECK(scratch.elements() >= scratch_elements(x.elements()), "scratch is too small");
    return std::make_unique<Operation>(*this, x, scratch);
}

void AsyncReduceQueue::start(Operation& operation) {
    ESCALIER_CHECK(operation.finished_.load(), "this sum is still under way");
    if (!lane_ || operation.x_.elements() == 0) return;
    operation.finished_.store(false);
    operation.begun_ = false;
    operation.next_ = nullptr;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (tail_)
            tail_->next_ = &operation;
        else
            head_ = &operation;
        tail_ = &operation;
    }
    progress_.started();
    poll();
}

bool AsyncReduceQueue::poll() {
    const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return false;  // another thread is at it
    bool moved = false;
    while (head_ && advance_head()) moved = true;
    return moved;
}

// True when the head moved.
bool AsyncReduceQueue::advance_head() {
    Operation& operation = *head_;
    Polled state = Polled::done;
    try {
        if (!operation.begun_) lane_->begin(operation.x_, Combine::sum, operation.scratch_);
        operation.begun_ = true;
        state = lane_->advance();
    } catch (...) {
        operation.error_ = std::current_exception();
    }
    if (state != Polled::done) return state == Polled::moved;
    head_ = operation.next_;
    if (!head_) tail_ = nullptr;
    progress_.finished();
    operation.finished_.store(true,
                              std::memory_order_release);  // from here on its owner may start or free it
    return true;
}

}  // namespace escalier::comm
