// The values of a rank's share, in the host's memory, for the thread that writes them.
#pragma once

#include <condition_variable>
#include <mutex>
#include <vector>

#include "checkpoint/share.h"
#include "device/arena.h"
#include "device/device.h"

namespace escalier::checkpoint {

class ShareValues {
 public:
    // copied: a copy of the whole share is taken, so that the state may change while it is written. Else the
    // values are read in place, or, from a device with memory of its own, through room for one tensor.
    ShareValues(const StateList& state, std::vector<SharePiece> share, bool copied, device::Device& device,
                device::Arenas& arenas);

    const std::vector<SharePiece>& share() const { return share_; }
    bool transposed(std::size_t piece) const { return state_[share_[piece].tensor].transposed; }
    bool copied() const { return copied_; }

    // By the main thread: the state as it is now is what will be written.
    void capture();
    // By the main thread, while the other one writes: brings what that one waits for. Not to be called when
    // copied().
    void serve();

    // By the writing thread: of one piece, in the model's orientation; stays until the next call.
    const float* values(std::size_t piece);
    void stop_waiting();  // by the main thread: values() returns null from now on, until capture()

 private:
    const float* state_data(std::size_t piece) const;

    const StateList& state_;
    std::vector<SharePiece> share_;
    bool copied_;
    device::Device& device_;
    std::vector<TensorView>
        staging_;  // one per piece when copied, one in all through which they pass, or none

    std::mutex mutex_;
    std::condition_variable served_;
    std::size_t wanted_ = none;
    bool stopped_ = false;
    static constexpr std::size_t none = static_cast<std::size_t>(-1);
};

}  // namespace escalier::checkpoint
