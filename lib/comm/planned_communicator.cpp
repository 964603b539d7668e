#include "comm/planned_communicator.h"

#include <algorithm>
#include <utility>

#include "comm/rank_pieces.h"
#include "comm/sum_scratch.h"
#include "core/error.h"

namespace escalier::comm {

namespace {

[[noreturn]] void refuse() {
    throw InternalError("a planned job was asked to communicate");
}

class PlannedGroup final : public Communicator {
 public:
    PlannedGroup(int rank, int size, SumWay way) : rank_(rank), size_(size), way_(way) {}

    int rank() const override { return rank_; }
    int size() const override { return size_; }
    void all_reduce_sum(TensorView, const char*) override { refuse(); }
    void all_reduce_max(TensorView, const char*) override { refuse(); }
    void all_gather(TensorView, TensorView, const char*) override { refuse(); }
    void broadcast(TensorView, int, const char*) override { refuse(); }
    void barrier(const char*) override { refuse(); }
    std::unique_ptr<AllReduce> make_all_reduce(TensorView, TensorView) override { refuse(); }
    std::int64_t all_reduce_scratch_elements(std::int64_t elements) const override {
        if (size_ == 1) return 0;
        switch (way_) {
            case SumWay::messages:
                return message_scratch(elements, size_, message_chunk_elements);
            case SumWay::nccl_ordered:
                return parts_elements(elements, size_);
            case SumWay::shared_memory:
            case SumWay::nccl:
            case SumWay::staged:
                return 0;
        }
        return 0;
    }
    std::unique_ptr<Communicator> split(int, int) override { refuse(); }

 private:
    int rank_, size_;
    SumWay way_;
};

class PlannedChannel final : public Channel {
 public:
    int start_send(TensorView) override { refuse(); }
    int start_receive(TensorView) override { refuse(); }
    bool done(int) override { refuse(); }
    void wait(int, const char*) override { refuse(); }
};

class PlannedTransport final : public Transport {
 public:
    PlannedTransport(std::string name, bool rank_order) : name_(std::move(name)), rank_order_(rank_order) {}

    std::string name() const override { return name_; }
    std::unique_ptr<Communicator> on_device(std::unique_ptr<Communicator> group) override {
        if (!group || name_ == "mpi") return group;
        const SumWay way = name_ == "staged" ? SumWay::staged
                           : rank_order_     ? SumWay::nccl_ordered
                                             : SumWay::nccl;
        return std::make_unique<PlannedGroup>(group->rank(), group->size(), way);
    }
    std::unique_ptr<Channel> make_channel(Communicator& group, int from, int to, int, bool) override {
        if (group.rank() != from && group.rank() != to) return nullptr;
        return std::make_unique<PlannedChannel>();
    }
    void check() override {}

 private:
    std::string name_;
    bool rank_order_;
};

}  // namespace

std::unique_ptr<Communicator> planned_group(int rank, int size, bool one_node) {
    return std::make_unique<PlannedGroup>(rank, size, one_node ? SumWay::shared_memory : SumWay::messages);
}

std::unique_ptr<Transport> planned_transport(const std::string& name, bool rank_order) {
    return std::make_unique<PlannedTransport>(name, rank_order);
}

std::int64_t group_host_bytes(int size, bool one_node, bool background) {
    if (size == 1) return 0;
    if (!one_node)
        return largest_message_scratch(size, message_chunk_elements) *
               static_cast<std::int64_t>(sizeof(double));
    const auto lane = [&](std::int64_t slot_bytes) {
        return size * shared_slots * shared_slot_stride(size, slot_bytes);
    };
    return lane(shared_slot_bytes) + (background ? lane(shared_background_slot_bytes) : 0);
}

}  // namespace escalier::comm
