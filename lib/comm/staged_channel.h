// A channel between two GPUs' memories by way of pinned host memory and an MPI channel.
//
// A send copies to the host on the channel's stream, once the device has come to where it was started, and
// then goes out by MPI. A receive comes in by MPI and is copied to the device once the work queued before it
// is done with the tensor. wait() keeps the host until the message has been taken, or has come in and its
// copy is queued.
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/mpi_env.h"
#include "comm/progress.h"
#include "comm/staged_memory.h"
#include "device/cuda_device.h"

namespace escalier::comm {

class StagedChannel final : public Channel, public Pollable {
 public:
    // hosts: between the same two ranks, as deep.
    StagedChannel(std::unique_ptr<Channel> hosts, int depth, MpiEnv& env, device::CudaDevice& device);
    ~StagedChannel() override;
    StagedChannel(const StagedChannel&) = delete;
    StagedChannel& operator=(const StagedChannel&) = delete;

    int start_send(TensorView x) override;
    int start_receive(TensorView x) override;
    bool done(int ticket) override;
    void wait(int ticket, const char* label) override;
    bool poll() override;  // by comm's progress thread

 private:
    // copying, sent: a send's copy to the host, its message. posted, arriving: a receive whose memory on the
    // host is not free yet, one whose message is awaited. over: the host has nothing more to do.
    enum class State { copying, sent, posted, arriving, over };
    struct Message {
        TensorView tensor;
        StagedMemory host;
        State state = State::over;
        int ticket = -1;           // of hosts_
        device::CudaEvent ready;   // where the message was started in the device's queue
        device::CudaEvent copied;  // between the tensor and the host's memory
        TensorView on_host() const { return TensorView(host.data(), tensor.dtype(), tensor.shape()); }
    };

    int take(TensorView x, State state);
    bool advance_all();  // with mutex_ held; true when something moved
    bool advance(Message& message);
    void queue_copy(Message& message);
    bool over(int ticket);  // throws what went wrong in the background

    std::unique_ptr<Channel> hosts_;
    Progress& progress_;
    MpiEnv& env_;
    device::CudaDevice& device_;
    device::CudaStream stream_{true};
    std::mutex mutex_;               // guards what follows, and hosts_
    std::vector<Message> messages_;  // by ticket
    std::vector<int> free_;
    std::vector<int> under_way_;  // tickets, in the order of their start
    std::exception_ptr error_;
};

}  // namespace escalier::comm
