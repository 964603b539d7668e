// A channel over NCCL: two ranks with a communicator and, at either end, a stream of their own. A message
// starts when the device has come to where it was started in the order of its queue, whatever the host does.
#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/nccl_handle.h"
#include "device/cuda_device.h"

namespace escalier::comm {

class NcclChannel final : public Channel {
 public:
    // handle: of the two ranks.
    NcclChannel(std::shared_ptr<const NcclHandle> handle, int peer, int depth, device::CudaDevice& device);

    int start_send(TensorView x) override { return start(x, true); }
    int start_receive(TensorView x) override { return start(x, false); }
    bool done(int ticket) override;
    void wait(int ticket, const char* label) override;

 private:
    int start(TensorView x, bool send);

    std::shared_ptr<const NcclHandle> handle_;
    int peer_;
    device::CudaDevice& device_;
    device::CudaStream stream_{true};
    device::CudaEvent ready_;                  // of the message that starts
    std::vector<device::CudaEvent> finished_;  // by ticket
    std::vector<int> free_;
};

}  // namespace escalier::comm
