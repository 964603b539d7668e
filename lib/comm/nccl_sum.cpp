#include "comm/nccl_sum.h"

#include "comm/nccl_handle.h"
#include "comm/rank_pieces.h"
#include "core/check.h"
#include "kernels/common/cuda_check.h"
#include "kernels/common/cuda_queue.h"

namespace escalier::comm {

namespace {

// Sends `own` of piece(rank, other) and receives into part(other), for all other ranks at once.
template <class Sent, class Received>
void exchange(const NcclSum& group, cudaStream_t stream, const Sent& sent, const Received& received) {
    check_nccl(ncclGroupStart(), "ncclGroupStart");
    for (int r = 0; r < group.size; ++r) {
        if (r == group.rank) continue;
        const TensorView out = sent(r), in = received(r);
        if (out.elements() > 0)
            check_nccl(ncclSend(out.data(), static_cast<std::size_t>(out.elements()), nccl_type(out.dtype()),
                                r, group.comm, stream),
                       "ncclSend", group.comm);
        if (in.elements() > 0)
            check_nccl(ncclRecv(in.data(), static_cast<std::size_t>(in.elements()), nccl_type(in.dtype()), r,
                                group.comm, stream),
                       "ncclRecv", group.comm);
    }
    check_nccl(ncclGroupEnd(), "ncclGroupEnd", group.comm);
}

}  // namespace

std::int64_t NcclSum::scratch_elements(std::int64_t elements) const {
    return in_rank_order && size > 1 ? parts_elements(elements, size) : 0;
}

void NcclSum::queue(TensorView x, TensorView scratch, const OpContext& on) const {
    ESCALIER_CHECK(x.dtype() == DType::f32 || x.dtype() == DType::bf16,
                   "only f32 and bf16 are summed on GPUs");
    if (size == 1 || x.elements() == 0) return;
    const cudaStream_t stream = on.queue().stream;
    if (!in_rank_order) {
        check_nccl(ncclAllReduce(x.data(), x.data(), static_cast<std::size_t>(x.elements()),
                                 nccl_type(x.dtype()), ncclSum, comm, stream),
                   "ncclAllReduce", comm);
        return;
    }
    ESCALIER_CHECK(scratch.dtype() == x.dtype() && scratch.elements() >= scratch_elements(x.elements()),
                   "scratch is too small");
    const TensorView flat = x.reshaped({x.elements()});
    const auto piece = [&](int r) {
        const RankPiece at = piece_of_rank(x.elements(), r, size);
        return flat.rows(at.begin, at.count);
    };
    const TensorView own = piece(rank);
    const auto part = [&](int r) { return scratch.rows(r * own.elements(), own.elements()); };
    exchange(*this, stream, piece, part);
    if (own.elements() > 0) {
        kernels::cuda::check_cuda(
            cudaMemcpyAsync(part(rank).data(), own.data(), own.bytes(), cudaMemcpyDeviceToDevice, stream),
            "cudaMemcpyAsync on the device");
        sum_parts(on, own, scratch.rows(0, size * own.elements()).reshaped({size, own.elements()}));
    }
    exchange(
        *this, stream, [&](int) { return own; }, piece);
}

}  // namespace escalier::comm
