#include "comm/staged_channel.h"

#include <utility>

#include "core/check.h"

namespace escalier::comm {

using kernels::cuda::check_cuda;

StagedChannel::StagedChannel(std::unique_ptr<Channel> hosts, int depth, MpiEnv& env,
                             device::CudaDevice& device)
    : hosts_(std::move(hosts)), progress_(env.progress()), env_(env), device_(device) {
    messages_.resize(static_cast<std::size_t>(depth));
    for (int ticket = depth - 1; ticket >= 0; --ticket) free_.push_back(ticket);
    under_way_.reserve(static_cast<std::size_t>(depth));
    progress_.add(*this);
}

StagedChannel::~StagedChannel() {
    progress_.remove(*this);
    for (std::size_t i = 0; i < under_way_.size(); ++i) progress_.finished();
}

// The ticket's memory on the host grows with the longest message it has carried, in the first step.
int StagedChannel::take(TensorView x, State state) {
    ESCALIER_CHECK(!free_.empty(), "more messages under way than the channel's depth");
    const int ticket = free_.back();
    free_.pop_back();
    Message& message = messages_[static_cast<std::size_t>(ticket)];
    if (message.host.bytes() < x.bytes()) {
        env_.wait_until("a copy to the device", [&] { return message.copied.passed(); });
        message.host = StagedMemory(device_, x.bytes(), "of messages between ranks");
    }
    message.tensor = x;
    message.state = state;
    message.ready.record(device_.stream());
    under_way_.push_back(ticket);
    progress_.started();
    return ticket;
}

int StagedChannel::start_send(TensorView x) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const int ticket = take(x, State::copying);
    queue_copy(messages_[static_cast<std::size_t>(ticket)]);
    return ticket;
}

int StagedChannel::start_receive(TensorView x) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const int ticket = take(x, State::posted);
    advance_all();
    return ticket;
}

void StagedChannel::queue_copy(Message& message) {
    const bool send = message.state == State::copying;
    message.ready.hold(stream_.get());
    check_cuda(send ? cudaMemcpyAsync(message.host.data(), message.tensor.data(), message.tensor.bytes(),
                                      cudaMemcpyDeviceToHost, stream_.get())
                    : cudaMemcpyAsync(message.tensor.data(), message.host.data(), message.tensor.bytes(),
                                      cudaMemcpyHostToDevice, stream_.get()),
               send ? "cudaMemcpyAsync to the host" : "cudaMemcpyAsync to the device");
    message.copied.record(stream_.get());
}

// True when it moved.
bool StagedChannel::advance(Message& message) {
    switch (message.state) {
        case State::copying:
            if (!message.copied.passed()) return false;
            message.ticket = hosts_->start_send(message.on_host());
            message.state = State::sent;
            return true;
        case State::posted:
            if (!message.copied.passed()) return false;  // what came before it in the same memory
            message.ticket = hosts_->start_receive(message.on_host());
            message.state = State::arriving;
            return true;
        case State::sent:
            if (!hosts_->done(message.ticket)) return false;
            message.state = State::over;
            return true;
        case State::arriving:
            if (!hosts_->done(message.ticket)) return false;
            queue_copy(message);
            message.state = State::over;
            return true;
        case State::over:
            return false;
    }
    return false;
}

// In the order of their start, for that is the order at the other end: nobody goes out before the one ahead.
bool StagedChannel::advance_all() {
    if (error_) return false;
    bool moved = false;
    try {
        bool all_out = true;
        std::size_t kept = 0;
        for (const int ticket : under_way_) {
            Message& message = messages_[static_cast<std::size_t>(ticket)];
            const auto waits = [&] {
                return message.state == State::copying || message.state == State::posted;
            };
            if (all_out || !waits()) moved = advance(message) || moved;
            all_out = all_out && !waits();
            if (message.state == State::over)
                progress_.finished();
            else
                under_way_[kept++] = ticket;
        }
        under_way_.resize(kept);
    } catch (...) {
        error_ = std::current_exception();
    }
    return moved;
}

bool StagedChannel::poll() {
    const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock() || under_way_.empty() || error_) return false;
    try {
        device_.use_from_this_thread();
    } catch (...) {
        error_ = std::current_exception();
        return false;
    }
    return advance_all();
}

bool StagedChannel::over(int ticket) {
    const std::lock_guard<std::mutex> lock(mutex_);
    advance_all();
    if (error_) std::rethrow_exception(error_);
    return messages_[static_cast<std::size_t>(ticket)].state == State::over;
}

bool StagedChannel::done(int ticket) {
    if (!over(ticket) || !messages_[static_cast<std::size_t>(ticket)].copied.passed()) return false;
    free_.push_back(ticket);  // never beyond its first capacity
    return true;
}

void StagedChannel::wait(int ticket, const char* label) {
    env_.wait_until(label, [this, ticket] {
        progress_.poll();  // what the other end waits for may be on another channel
        return over(ticket);
    });
    messages_[static_cast<std::size_t>(ticket)].copied.hold(device_.stream());
    free_.push_back(ticket);
}

}  // namespace escalier::comm
