#include "comm/nccl_channel.h"

#include <utility>

#include "core/check.h"

namespace escalier::comm {

NcclChannel::NcclChannel(std::shared_ptr<const NcclHandle> handle, int peer, int depth,
                         device::CudaDevice& device)
    : handle_(std::move(handle)), peer_(peer), device_(device) {
    finished_.reserve(static_cast<std::size_t>(depth));
    for (int ticket = depth - 1; ticket >= 0; --ticket) {
        finished_.emplace_back();
        free_.push_back(ticket);
    }
}

// What was queued before it has read or written the tensor, so the message waits for that.
int NcclChannel::start(TensorView x, bool send) {
    ESCALIER_CHECK(!free_.empty(), "more messages under way than the channel's depth");
    const int ticket = free_.back();
    free_.pop_back();
    ready_.record(device_.stream());
    ready_.hold(stream_.get());
    const auto count = static_cast<std::size_t>(x.elements());
    if (send)
        check_nccl(ncclSend(x.data(), count, nccl_type(x.dtype()), peer_, handle_->get(), stream_.get()),
                   "ncclSend", handle_->get());
    else
        check_nccl(ncclRecv(x.data(), count, nccl_type(x.dtype()), peer_, handle_->get(), stream_.get()),
                   "ncclRecv", handle_->get());
    finished_[static_cast<std::size_t>(ticket)].record(stream_.get());
    return ticket;
}

bool NcclChannel::done(int ticket) {
    if (!finished_[static_cast<std::size_t>(ticket)].passed()) return false;
    free_.push_back(ticket);  // never beyond its first capacity
    return true;
}

// The device waits, not the host. The ticket is free at once: who waits for an event waits for the place it
// stood for then.
void NcclChannel::wait(int ticket, const char*) {
    finished_[static_cast<std::size_t>(ticket)].hold(device_.stream());
    free_.push_back(ticket);
}

}  // namespace escalier::comm
