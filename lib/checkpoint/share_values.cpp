#include "checkpoint/share_values.h"

#include <algorithm>

namespace escalier::checkpoint {

ShareValues::ShareValues(const StateList& state, std::vector<SharePiece> share, bool copied,
                         device::Device& device, device::Arenas& arenas)
    : state_(state), share_(std::move(share)), copied_(copied), device_(device) {
    std::int64_t largest = 0;
    for (const SharePiece& piece : share_) {
        if (copied_) staging_.push_back(arenas.staging.take(DType::f32, {piece.elements()}));
        largest = std::max(largest, piece.elements());
    }
    if (!copied_ && !device.is_host()) staging_.push_back(arenas.staging.take(DType::f32, {largest}));
}

const float* ShareValues::state_data(std::size_t piece) const {
    return state_[share_[piece].tensor].view.as<float>();
}

void ShareValues::capture() {
    stopped_ = false;
    wanted_ = none;
    if (!copied_) return;
    for (std::size_t piece = 0; piece < share_.size(); ++piece)
        device_.download(staging_[piece].data(), state_data(piece), staging_[piece].bytes());
    device_.synchronize();
}

void ShareValues::serve() {
    std::size_t piece;
    {
        const std::lock_guard lock(mutex_);
        piece = wanted_;
    }
    if (piece == none) return;
    device_.copy_to_host(staging_[0].data(), state_data(piece),
                         static_cast<std::size_t>(share_[piece].elements()) * sizeof(float));
    {
        const std::lock_guard lock(mutex_);
        wanted_ = none;
    }
    served_.notify_all();
}

const float* ShareValues::values(std::size_t piece) {
    if (copied_) return staging_[piece].as<float>();
    if (device_.is_host()) return state_data(piece);
    std::unique_lock lock(mutex_);
    wanted_ = piece;
    served_.wait(lock, [&] { return wanted_ == none || stopped_; });
    return stopped_ ? nullptr : staging_[0].as<float>();
}

void ShareValues::stop_waiting() {
    {
        const std::lock_guard lock(mutex_);
        stopped_ = true;
    }
    served_.notify_all();
}

}  // namespace escalier::checkpoint
