// Sums in the background over the memories of GPUs: copied to the host, summed there by the group's own
// background sums, copied back, on a stream beside the device's own. Carried forward by the main thread's
// polls and by comm's progress thread.
#pragma once

#include <exception>
#include <memory>
#include <mutex>

#include "comm/mpi_env.h"
#include "comm/progress.h"
#include "comm/staged_memory.h"
#include "device/cuda_device.h"

namespace escalier::comm {

class StagedReduceQueue final : public Pollable {
 public:
    // host: the same ranks.
    StagedReduceQueue(Communicator& host, MpiEnv& env, device::CudaDevice& device);
    ~StagedReduceQueue() override;
    StagedReduceQueue(const StagedReduceQueue&) = delete;
    StagedReduceQueue& operator=(const StagedReduceQueue&) = delete;

    // x of a measuring arena takes no memory. scratch is not needed.
    std::unique_ptr<AllReduce> make(TensorView x, TensorView scratch);
    bool poll() override;

 private:
    class Operation;
    void start(Operation& operation);
    void forget(Operation& operation);
    bool advance_all();               // with mutex_ held; true when something moved
    bool over(Operation& operation);  // throws what went wrong in the background

    Communicator& host_;
    MpiEnv& env_;
    Progress& progress_;
    device::CudaDevice& device_;
    device::CudaStream stream_{true};
    std::mutex mutex_;            // guards the list, and the operations in it
    Operation* first_ = nullptr;  // of those under way, in the order of their start
    Operation* last_ = nullptr;
    std::exception_ptr error_;
};

}  // namespace escalier::comm
