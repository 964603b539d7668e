// NCCL communicators as owners, and its errors as CommError.
#pragma once

#include <nccl.h>

#include <source_location>

#include "comm/communicator.h"

namespace escalier::comm {

// Throws CommError: the call, NCCL's words, its last message for `comm` (may be null), file:line.
void check_nccl(ncclResult_t code, const char* call, ncclComm_t comm = nullptr,
                std::source_location where = std::source_location::current());

ncclDataType_t nccl_type(DType dtype);

// A new identity on the rank that makes it.
ncclUniqueId make_nccl_id();

class NcclHandle {
 public:
    // Collective over its ranks, which all have the same id. most_blocks: of the device that an operation may
    // occupy, 0: as NCCL likes.
    NcclHandle(const ncclUniqueId& id, int rank, int size, int most_blocks = 0);
    // Destroys it together with its other ranks; while an error ends the job it does not wait for them.
    ~NcclHandle();
    NcclHandle(const NcclHandle&) = delete;
    NcclHandle& operator=(const NcclHandle&) = delete;

    ncclComm_t get() const { return comm_; }
    // Throws CommError if an operation has failed since it was queued.
    void check() const;

 private:
    ncclComm_t comm_ = nullptr;
};

}  // namespace escalier::comm
