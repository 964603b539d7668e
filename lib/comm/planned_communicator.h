// Groups and channels of a job that nobody has started: they have sizes and places and take the memory that
// the real ones would ask of arenas, so that a plan builds what a run builds. Asked to communicate they throw
// InternalError. No MPI.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/transport.h"

namespace escalier::comm {

// How the ranks of a group would add tensors.
enum class SumWay {
    shared_memory,  // host memory that all of them share
    messages,       // MPI messages between nodes
    nccl_ordered,   // NCCL, every rank adding its piece in rank order (run.deterministic)
    nccl,           // NCCL as it chooses
    staged          // through pinned host memory
};

// The place of one rank among `size`, in a group for host tensors. one_node: they all share memory.
std::unique_ptr<Communicator> planned_group(int rank, int size, bool one_node);

// name: "mpi", "nccl" or "staged". rank_order: of NCCL's sums. Groups must come from planned_group().
std::unique_ptr<Transport> planned_transport(const std::string& name, bool rank_order);

// Host memory in bytes that a group of host tensors keeps outside all arenas, as far as a rank touches it:
// what ranks of one node lay open to one another, or the scratch of messages. background: of sums in the
// background too.
std::int64_t group_host_bytes(int size, bool one_node, bool background);

}  // namespace escalier::comm
