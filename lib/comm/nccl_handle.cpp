#include "comm/nccl_handle.h"

#include <exception>
#include <string>

#include "core/error.h"

namespace escalier::comm {

void check_nccl(ncclResult_t code, const char* call, ncclComm_t comm, std::source_location where) {
    if (code == ncclSuccess || code == ncclInProgress) return;
    const char* last = ncclGetLastError(comm);
    throw CommError(std::string(call) + " failed: " + ncclGetErrorString(code) + " (" +
                    std::to_string(static_cast<int>(code)) + ")" +
                    (last && *last ? ", " + std::string(last) : std::string()) + ", at " + where.file_name() +
                    ":" + std::to_string(where.line()) + ". NCCL_DEBUG=WARN makes NCCL say more.");
}

ncclDataType_t nccl_type(DType dtype) {
    switch (dtype) {
        case DType::f32:
            return ncclFloat32;
        case DType::bf16:
            return ncclBfloat16;
        case DType::i32:
            return ncclInt32;
        case DType::f64:
            return ncclFloat64;
        case DType::u64:
            return ncclUint64;
        case DType::u8:
            return ncclUint8;
    }
    return ncclUint8;
}

ncclUniqueId make_nccl_id() {
    ncclUniqueId id;
    check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
    return id;
}

NcclHandle::NcclHandle(const ncclUniqueId& id, int rank, int size, int most_blocks) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    if (most_blocks > 0) {
        config.minCTAs = 1;
        config.maxCTAs = most_blocks;
    }
    check_nccl(ncclCommInitRankConfig(&comm_, size, id, rank, &config), "ncclCommInitRankConfig");
}

NcclHandle::~NcclHandle() {
    if (std::uncaught_exceptions() > 0)
        ncclCommAbort(comm_);
    else
        ncclCommDestroy(comm_);
}

void NcclHandle::check() const {
    ncclResult_t state = ncclSuccess;
    check_nccl(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError", comm_);
    check_nccl(state, "an operation of NCCL in the background", comm_);
}

}  // namespace escalier::comm
