// A group over device memory. Blocking collectives are queued on the device's own stream, where later work
// waits for them; sums in the background on a stream that all groups of this rank share.
#pragma once

#include <memory>

#include "comm/nccl_handle.h"
#include "comm/nccl_sum.h"
#include "comm/transport.h"
#include "device/cuda_device.h"

namespace escalier::comm {

// What the groups of a rank share.
struct NcclShared {
    device::CudaDevice& device;
    kernels::SumParts& sum_parts;
    bool rank_order;
    const OpContext& compute;     // of the device's stream
    const OpContext& background;  // of a stream for sums in the background
    TensorView scratch;           // u8, of blocking sums, which run one after the other
};

class NcclCommunicator final : public Communicator {
 public:
    // Collective. host_group has the same ranks; handle is null for a group of one. transport makes the
    // groups that split() returns.
    NcclCommunicator(std::unique_ptr<Communicator> host_group, std::shared_ptr<const NcclHandle> handle,
                     const NcclShared& shared, Transport& transport);

    int rank() const override { return host_->rank(); }
    int size() const override { return host_->size(); }
    void all_reduce_sum(TensorView x, const char* label) override;  // f32 or bf16
    void all_reduce_max(TensorView x, const char* label) override;
    void all_gather(TensorView out, TensorView in, const char* label) override;
    void broadcast(TensorView x, int root, const char* label) override;
    void barrier(const char* label) override { host_->barrier(label); }  // of the hosts
    std::unique_ptr<AllReduce> make_all_reduce(TensorView x, TensorView scratch) override;
    std::int64_t all_reduce_scratch_elements(std::int64_t elements) const override {
        return sum_.scratch_elements(elements);
    }
    std::unique_ptr<Communicator> split(int color, int key) override {
        return transport_.on_device(host_->split(color, key));
    }

 private:
    std::unique_ptr<Communicator> host_;
    std::shared_ptr<const NcclHandle> handle_;
    const NcclShared& shared_;
    Transport& transport_;
    NcclSum sum_;
};

}  // namespace escalier::comm
