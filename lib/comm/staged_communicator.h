// A group over the memories of GPUs by way of pinned host memory and an MPI group. Tensors go through two
// buffers in turn; the host waits for the copies by polling.
#pragma once

#include <array>
#include <memory>

#include "comm/mpi_env.h"
#include "comm/staged_memory.h"
#include "comm/staged_reduce.h"
#include "comm/transport.h"
#include "device/cuda_device.h"

namespace escalier::comm {

// What the groups of a rank share: blocking collectives run one after the other.
struct StagedShared {
    struct Buffer {
        StagedMemory memory;
        device::CudaEvent filled;  // from the device
    };
    StagedShared(MpiEnv& env_, device::CudaDevice& device_, std::int64_t buffer_bytes_);

    MpiEnv& env;
    device::CudaDevice& device;
    std::int64_t buffer_bytes;
    std::array<Buffer, 2> buffers;
};

class StagedCommunicator final : public Communicator {
 public:
    // transport makes the groups that split() returns.
    StagedCommunicator(std::unique_ptr<Communicator> host_group, StagedShared& shared, Transport& transport);

    int rank() const override { return host_->rank(); }
    int size() const override { return host_->size(); }
    void all_reduce_sum(TensorView x, const char* label) override;
    void all_reduce_max(TensorView x, const char* label) override;
    void all_gather(TensorView out, TensorView in, const char* label) override;
    void broadcast(TensorView x, int root, const char* label) override;
    void barrier(const char* label) override { host_->barrier(label); }  // of the hosts
    std::unique_ptr<AllReduce> make_all_reduce(TensorView x, TensorView scratch) override {
        return sums_.make(x, scratch);
    }
    std::int64_t all_reduce_scratch_elements(std::int64_t) const override { return 0; }
    std::unique_ptr<Communicator> split(int color, int key) override {
        return transport_.on_device(host_->split(color, key));
    }

 private:
    template <class Exchange>
    void through_host(TensorView x, const char* label, const Exchange& exchange);
    void wait_for(const device::CudaEvent& event, const char* label);

    std::unique_ptr<Communicator> host_;
    StagedShared& shared_;
    Transport& transport_;
    StagedReduceQueue sums_;
};

}  // namespace escalier::comm
