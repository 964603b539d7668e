// The communication of one NCCL launch (a call, or all calls of a group on one communicator), by nonblocking
// MPI.
#pragma once

#include <mpi.h>
#include <nccl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda_emulation/shims/queue.h"

// Work is numbered as it is issued; a communicator does one after the other, as NCCL does.
struct ncclComm {
    MPI_Comm mpi = MPI_COMM_NULL;  // null: alone
    int rank = 0, size = 1;
    int device = 0;
    bool aborted = false;
    ncclResult_t error = ncclSuccess;  // of work that has begun
    std::uint64_t issued = 0, finished = 0;
    bool busy = false;
};

namespace escalier::cuda_emulation {

enum class NcclKind { all_reduce, all_gather, reduce_scatter, broadcast, send, receive };

struct NcclCall {
    NcclKind kind;
    const void* from;
    void* to;
    std::size_t count;  // as the caller counts: per rank in all_gather and reduce_scatter
    ncclDataType_t type;
    ncclRedOp_t operation;
    int peer;  // or root
};

std::size_t size_of(ncclDataType_t type);  // 0: not one that is stood in for

// Runs `calls` together. Waits until everything issued before on `comm` is finished; a message of another
// size than the receiver expects ends the program with 70.
Work nccl_work(std::shared_ptr<ncclComm> comm, std::vector<NcclCall> calls, bool captured);

}  // namespace escalier::cuda_emulation
