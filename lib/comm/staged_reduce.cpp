#include "comm/staged_reduce.h"

#include <utility>
#include <vector>

#include "core/check.h"

namespace escalier::comm {

using kernels::cuda::check_cuda;

class StagedReduceQueue::Operation final : public AllReduce {
 public:
    Operation(StagedReduceQueue& queue, TensorView x) : queue_(queue), tensor_(x) {
        if (!x.has_data() || queue.host_.size() == 1) return;
        memory_ = StagedMemory(queue.device_, x.bytes(), "of sums over ranks");
        const TensorView on_host(memory_.data(), x.dtype(), x.shape());
        const std::int64_t scratch = queue.host_.all_reduce_scratch_elements(x.elements());
        scratch_ = StagedMemory(queue.device_, static_cast<std::size_t>(scratch) * size_of(x.dtype()) + 1,
                                "of sums over ranks");
        sum_ = queue.host_.make_all_reduce(on_host, TensorView(scratch_.data(), x.dtype(), {scratch}));
    }

    ~Operation() override { queue_.forget(*this); }

    void start() override { queue_.start(*this); }
    bool done() override { return queue_.over(*this) && copied_.passed(); }
    void wait(const char* label) override {
        queue_.env_.wait_until(label, [this] {
            queue_.progress_.poll();
            return queue_.over(*this);
        });
        copied_.hold(queue_.device_.stream());
    }

 private:
    friend class StagedReduceQueue;
    enum class State { copying, summing, over };

    StagedReduceQueue& queue_;
    TensorView tensor_;
    StagedMemory memory_, scratch_;
    std::unique_ptr<AllReduce> sum_;
    device::CudaEvent ready_, copied_;
    State state_ = State::over;
    Operation* next_ = nullptr;
};

StagedReduceQueue::StagedReduceQueue(Communicator& host, MpiEnv& env, device::CudaDevice& device)
    : host_(host), env_(env), progress_(env.progress()), device_(device) {
    if (host_.size() > 1) progress_.add(*this);
}

StagedReduceQueue::~StagedReduceQueue() {
    if (host_.size() > 1) progress_.remove(*this);
}

std::unique_ptr<AllReduce> StagedReduceQueue::make(TensorView x, TensorView) {
    return std::make_unique<Operation>(*this, x);
}

void StagedReduceQueue::start(Operation& operation) {
    if (!operation.sum_ || operation.tensor_.elements() == 0) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    ESCALIER_CHECK(operation.state_ == Operation::State::over, "this sum is still under way");
    operation.ready_.record(device_.stream());
    operation.ready_.hold(stream_.get());
    check_cuda(cudaMemcpyAsync(operation.memory_.data(), operation.tensor_.data(), operation.tensor_.bytes(),
                               cudaMemcpyDeviceToHost, stream_.get()),
               "cudaMemcpyAsync to the host");
    operation.copied_.record(stream_.get());
    operation.state_ = Operation::State::copying;
    operation.next_ = nullptr;
    (last_ ? last_->next_ : first_) = &operation;
    last_ = &operation;
    progress_.started();
}

void StagedReduceQueue::forget(Operation& operation) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Operation* before = nullptr;
    for (Operation* at = first_; at; before = at, at = at->next_) {
        if (at != &operation) continue;
        (before ? before->next_ : first_) = operation.next_;
        if (last_ == &operation) last_ = before;
        progress_.finished();
        return;
    }
}

// Sums are started on the hosts in the order of the list, which all ranks share, and end in that order too.
bool StagedReduceQueue::advance_all() {
    if (error_) return false;
    bool moved = false;
    try {
        for (Operation* operation = first_; operation; operation = operation->next_) {
            if (operation->state_ != Operation::State::copying) continue;
            if (!operation->copied_.passed()) break;
            operation->sum_->start();
            operation->state_ = Operation::State::summing;
            moved = true;
        }
        while (first_ && first_->state_ == Operation::State::summing && first_->sum_->done()) {
            check_cuda(cudaMemcpyAsync(first_->tensor_.data(), first_->memory_.data(),
                                       first_->tensor_.bytes(), cudaMemcpyHostToDevice, stream_.get()),
                       "cudaMemcpyAsync to the device");
            first_->copied_.record(stream_.get());
            first_->state_ = Operation::State::over;
            first_ = first_->next_;
            if (!first_) last_ = nullptr;
            progress_.finished();
            moved = true;
        }
    } catch (...) {
        error_ = std::current_exception();
    }
    return moved;
}

bool StagedReduceQueue::poll() {
    const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock() || !first_ || error_) return false;
    try {
        device_.use_from_this_thread();
    } catch (...) {
        error_ = std::current_exception();
        return false;
    }
    return advance_all();
}

bool StagedReduceQueue::over(Operation& operation) {
    const std::lock_guard<std::mutex> lock(mutex_);
    advance_all();
    if (error_) std::rethrow_exception(error_);
    return operation.state_ == Operation::State::over;
}

}  // namespace escalier::comm
