#include "comm/nccl_communicator.h"

#include <algorithm>
#include <utility>

#include "comm/rank_pieces.h"
#include "core/check.h"

namespace escalier::comm {

namespace {

class NcclAllReduce final : public AllReduce {
 public:
    NcclAllReduce(const NcclSum& sum, const NcclShared& shared, TensorView x, TensorView scratch)
        : sum_(sum), shared_(shared), x_(x), scratch_(scratch) {}

    void start() override {
        const cudaStream_t stream = shared_.background.queue().stream;
        ready_.record(shared_.device.stream());
        ready_.hold(stream);
        sum_.queue(x_, scratch_, shared_.background);
        finished_.record(stream);
    }
    bool done() override { return finished_.passed(); }
    void wait(const char*) override { finished_.hold(shared_.device.stream()); }

 private:
    const NcclSum& sum_;
    const NcclShared& shared_;
    TensorView x_, scratch_;
    device::CudaEvent ready_, finished_;
};

}  // namespace

NcclCommunicator::NcclCommunicator(std::unique_ptr<Communicator> host_group,
                                   std::shared_ptr<const NcclHandle> handle, const NcclShared& shared,
                                   Transport& transport)
    : host_(std::move(host_group)),
      handle_(std::move(handle)),
      shared_(shared),
      transport_(transport),
      sum_{handle_ ? handle_->get() : nullptr, host_->rank(), host_->size(), shared.rank_order,
           shared.sum_parts} {}

// In pieces that the shared scratch is large enough for.
void NcclCommunicator::all_reduce_sum(TensorView x, const char*) {
    if (size() == 1) return;
    const auto element = static_cast<std::int64_t>(size_of(x.dtype()));
    const std::int64_t room = shared_.scratch.elements() / element;
    const TensorView scratch(shared_.scratch.data(), x.dtype(), {room});
    const std::int64_t most =
        shared_.rank_order ? (room - size() * piece_granule) / piece_granule * piece_granule : x.elements();
    const TensorView flat = x.reshaped({x.elements()});
    for (std::int64_t begin = 0; begin < x.elements(); begin += most)
        sum_.queue(flat.rows(begin, std::min(most, x.elements() - begin)), scratch, shared_.compute);
}

void NcclCommunicator::all_reduce_max(TensorView x, const char*) {
    ESCALIER_CHECK(x.dtype() == DType::f64 || x.dtype() == DType::i32,
                   "only f64 and i32 have a maximum over ranks");
    if (size() == 1) return;
    check_nccl(ncclAllReduce(x.data(), x.data(), static_cast<std::size_t>(x.elements()), nccl_type(x.dtype()),
                             ncclMax, handle_->get(), shared_.device.stream()),
               "ncclAllReduce", handle_->get());
}

void NcclCommunicator::all_gather(TensorView out, TensorView in, const char*) {
    ESCALIER_CHECK(out.bytes() == in.bytes() * static_cast<std::size_t>(size()), "all_gather: sizes differ");
    if (size() == 1) {
        if (out.data() != in.data())
            kernels::cuda::check_cuda(cudaMemcpyAsync(out.data(), in.data(), in.bytes(),
                                                      cudaMemcpyDeviceToDevice, shared_.device.stream()),
                                      "cudaMemcpyAsync on the device");
        return;
    }
    check_nccl(
        ncclAllGather(in.data(), out.data(), in.bytes(), ncclUint8, handle_->get(), shared_.device.stream()),
        "ncclAllGather", handle_->get());
}

void NcclCommunicator::broadcast(TensorView x, int root, const char*) {
    ESCALIER_CHECK(root >= 0 && root < size(), "broadcast: no such rank");
    if (size() == 1) return;
    check_nccl(ncclBroadcast(x.data(), x.data(), x.bytes(), ncclUint8, root, handle_->get(),
                             shared_.device.stream()),
               "ncclBroadcast", handle_->get());
}

std::unique_ptr<AllReduce> NcclCommunicator::make_all_reduce(TensorView x, TensorView scratch) {
    return std::make_unique<NcclAllReduce>(sum_, shared_, x, scratch);
}

}  // namespace escalier::comm
