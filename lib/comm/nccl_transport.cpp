#include "comm/nccl_transport.h"

#include <utility>
#include <vector>

#include "comm/nccl_channel.h"
#include "comm/nccl_communicator.h"
#include "comm/rank_pieces.h"
#include "core/compute_pool.h"

namespace escalier::comm {

namespace {

// Blocks of the device that a channel's operation holds while it waits for its peer and copies: they are
// taken from the products that run beside it, and a pipeline's boundary needs a small share of a link.
constexpr int channel_blocks = 2;
constexpr const char* waiting = "the other ranks to set up NCCL";

class NcclTransport final : public Transport {
 public:
    NcclTransport(MpiEnv& env, device::CudaDevice& device, kernels::SumParts& sum_parts, bool rank_order,
                  std::int64_t scratch_bytes)
        : env_(env),
          device_(device),
          scratch_(env.world().size() > 1 ? scratch_bytes : 0),
          background_queue_(device.queue_on(background_stream_.get())),
          compute_(device.op_context(pool_, nullptr, 0)),
          background_(pool_, nullptr, 0, background_queue_),
          shared_{device,
                  sum_parts,
                  rank_order,
                  compute_,
                  background_,
                  TensorView(scratch_ ? device.allocator().allocate(static_cast<std::size_t>(scratch_),
                                                                    "of sums over ranks")
                                      : nullptr,
                             DType::u8, {scratch_})} {}
    ~NcclTransport() override {
        if (scratch_) device_.allocator().free(shared_.scratch.data(), static_cast<std::size_t>(scratch_));
    }

    std::string name() const override { return "nccl"; }
    std::unique_ptr<Communicator> on_device(std::unique_ptr<Communicator> host_group) override;
    std::unique_ptr<Channel> make_channel(Communicator& group, int from, int to, int depth, bool) override;
    void check() override {
        for (const std::weak_ptr<const NcclHandle>& weak : handles_)
            if (const auto handle = weak.lock()) handle->check();
    }

 private:
    std::shared_ptr<const NcclHandle> make_handle(const ncclUniqueId& id, int rank, int size,
                                                  int most_blocks);
    // Waits for the device; what NCCL sets up at first use is then there.
    void settle() {
        env_.wait_until(waiting, [this] {
            check();
            return device_.idle();
        });
    }

    MpiEnv& env_;
    device::CudaDevice& device_;
    std::int64_t scratch_;  // bytes
    device::CudaStream background_stream_{true};
    DeviceQueue background_queue_;
    ComputePool pool_{1};
    OpContext compute_, background_;
    NcclShared shared_;
    std::vector<std::weak_ptr<const NcclHandle>> handles_;  // of all groups and channels
};

std::shared_ptr<const NcclHandle> NcclTransport::make_handle(const ncclUniqueId& id, int rank, int size,
                                                             int most_blocks) {
    std::shared_ptr<const NcclHandle> handle;
    env_.wait_until(waiting, [&] {
        handle = std::make_shared<const NcclHandle>(id, rank, size, most_blocks);
        return true;
    });
    handles_.push_back(handle);
    return handle;
}

std::unique_ptr<Communicator> NcclTransport::on_device(std::unique_ptr<Communicator> host_group) {
    if (!host_group) return nullptr;
    const int rank = host_group->rank(), size = host_group->size();
    if (size == 1) return std::make_unique<NcclCommunicator>(std::move(host_group), nullptr, shared_, *this);
    ncclUniqueId id{};
    if (rank == 0) id = make_nccl_id();
    host_group->broadcast(TensorView(&id, DType::u8, {static_cast<std::int64_t>(sizeof id)}), 0, waiting);
    auto group = std::make_unique<NcclCommunicator>(std::move(host_group), make_handle(id, rank, size, 0),
                                                    shared_, *this);
    // Connections between two ranks are made at the first message, by both hosts together; later the hosts do
    // not wait for one another.
    const std::int64_t few = piece_granule * size;
    const TensorView all = shared_.scratch.rows(scratch_ / 2, few * 4).reshaped({few * 4});
    group->all_reduce_sum(TensorView(all.data(), DType::f32, {few}), waiting);
    group->all_gather(all, all.rows(rank * piece_granule * 4, piece_granule * 4), waiting);
    settle();
    return group;
}

// NCCL's sends wait for their receives where they are long, so they may always be called synchronous.
std::unique_ptr<Channel> NcclTransport::make_channel(Communicator& group, int from, int to, int depth, bool) {
    const std::unique_ptr<Channel> hosts = env_.make_channel(group, from, to, 1);
    if (!hosts) return nullptr;
    const bool sends = group.rank() == from;
    ncclUniqueId id{};
    const TensorView bytes(&id, DType::u8, {static_cast<std::int64_t>(sizeof id)});
    if (sends) id = make_nccl_id();
    hosts->wait(sends ? hosts->start_send(bytes) : hosts->start_receive(bytes), waiting);
    auto channel = std::make_unique<NcclChannel>(make_handle(id, sends ? 0 : 1, 2, channel_blocks),
                                                 sends ? 1 : 0, depth, device_);
    const TensorView message(shared_.scratch.data(), DType::f32, {1});
    channel->wait(sends ? channel->start_send(message) : channel->start_receive(message), waiting);
    settle();
    return channel;
}

}  // namespace

std::unique_ptr<Transport> make_nccl_transport(MpiEnv& env, device::CudaDevice& device,
                                               kernels::SumParts& sum_parts, bool rank_order,
                                               std::int64_t scratch_bytes) {
    return std::make_unique<NcclTransport>(env, device, sum_parts, rank_order, scratch_bytes);
}

}  // namespace escalier::comm
