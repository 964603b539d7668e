// How tensors of the device travel between ranks. Groups that carry only numbers of the host (losses, norms,
// tables) do without it.
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.h"

namespace escalier::comm {

// Communicators and channels come out of it ready for use: everything is set up at start, nothing later. All
// ranks concerned call these functions together and in the same order.
//
// On a device with a queue, "blocking" means that work queued afterwards waits, not the host: a collective,
// and Channel::wait() and AllReduce::wait(), return once they are queued. Buffers count as read or written in
// the order of the queue.
class Transport {
 public:
    virtual ~Transport() = default;
    virtual std::string name() const = 0;  // "mpi", "nccl", "staged"
    // A group for device tensors from one for host tensors, which it takes over. Null stays null.
    virtual std::unique_ptr<Communicator> on_device(std::unique_ptr<Communicator> host_group) = 0;
    // As MpiEnv::make_channel.
    virtual std::unique_ptr<Channel> make_channel(Communicator& group, int from, int to, int depth,
                                                  bool synchronous_sends) = 0;
    // Throws CommError if something that runs in the background has failed.
    virtual void check() = 0;
};

class MpiEnv;
// Device memory is host memory.
std::unique_ptr<Transport> make_mpi_transport(MpiEnv& env);

}  // namespace escalier::comm
