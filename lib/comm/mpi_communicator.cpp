#include "comm/mpi_communicator.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "comm/mpi_check.h"
#include "comm/wait.h"

namespace escalier::comm {

namespace {

constexpr int blocking_tag = 0;  // to 3
constexpr int async_tag = 4;     // to 7
constexpr int gather_tag = 8;

// The group's world ranks; all ranks where they are in no even distance.
RankSet world_ranks(MPI_Comm comm, int size) {
    MPI_Group group = MPI_GROUP_NULL, world = MPI_GROUP_NULL;
    check_mpi(MPI_Comm_group(comm, &group), "MPI_Comm_group");
    check_mpi(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
    std::vector<int> own(static_cast<std::size_t>(size)), ranks(own.size());
    std::iota(own.begin(), own.end(), 0);
    check_mpi(MPI_Group_translate_ranks(group, size, own.data(), world, ranks.data()),
              "MPI_Group_translate_ranks");
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    std::sort(ranks.begin(), ranks.end());
    const int stride = size > 1 ? ranks[1] - ranks[0] : 1;
    for (std::size_t i = 1; i < ranks.size(); ++i)
        if (ranks[i] - ranks[i - 1] != stride) return {};
    return {ranks[0], stride, size};
}

}  // namespace

MpiCommunicator::MpiCommunicator(MPI_Comm comm, const CommOptions& options, Progress& progress,
                                 Watchdog& watchdog)
    : comm_(comm), options_(options), progress_(progress), watchdog_(watchdog) {
    check_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
    members_ = world_ranks(comm_, size_);
    if (size_ == 1) {
        queue_ = std::make_unique<AsyncReduceQueue>(nullptr, members_, progress_, watchdog_);
        return;
    }
    const WaitScope scope(watchdog_, "the other ranks to set up a group", members_);
    requests_.assign(2 * static_cast<std::size_t>(size_), MPI_REQUEST_NULL);
    std::unique_ptr<ReduceLane> async_lane;
    if (options_.shared_memory) {
        lane_ = make_shared_lane(comm_, options_.slot_bytes);
        if (lane_) async_lane = make_shared_lane(comm_, options_.background_slot_bytes);
    }
    shares_memory_ = lane_ && async_lane;
    if (!shares_memory_) {
        lane_ = make_message_lane(comm_, blocking_tag, options_.chunk_elements);
        async_lane = make_message_lane(comm_, async_tag, options_.chunk_elements);
    }
    scratch_.resize(static_cast<std::size_t>(lane_->largest_scratch()));
    queue_ = std::make_unique<AsyncReduceQueue>(std::move(async_lane), members_, progress_, watchdog_);
}

MpiCommunicator::~MpiCommunicator() {
    queue_.reset();
    MPI_Comm_free(&comm_);
}

void MpiCommunicator::reduce(TensorView x, Combine combine, const char* label) {
    ESCALIER_CHECK(can_combine(combine, x.dtype()), "this reduction does not exist for this element type");
    if (size_ == 1 || x.elements() == 0) return;
    const std::int64_t needed = lane_->scratch_elements(x.elements());
    ESCALIER_CHECK(needed <= static_cast<std::int64_t>(scratch_.size()), "scratch is too small");
    lane_->begin(x, combine, TensorView(scratch_.data(), x.dtype(), Shape{needed}));
    int waits = 0;
    wait_until(watchdog_, label, members_, [&] {
        const Polled found = polled(lane_->advance());
        // Memory moves no messages, but another rank may still need those of an earlier collective from here,
        // as MPI_Comm_split leaves some behind.
        int message = 0;
        if (found == Polled::waiting && ++waits % 64 == 0)
            check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &message, MPI_STATUS_IGNORE),
                      "MPI_Iprobe");
        return found;
    });
}

void MpiCommunicator::all_reduce_sum(TensorView x, const char* label) {
    reduce(x, Combine::sum, label);
}

void MpiCommunicator::all_reduce_max(TensorView x, const char* label) {
    reduce(x, Combine::max, label);
}

void MpiCommunicator::wait_all(int requests, const char* label) {
    wait_until(watchdog_, label, members_, [&] {
        int complete = 0;
        check_mpi(MPI_Testall(requests, requests_.data(), &complete, MPI_STATUSES_IGNORE), "MPI_Testall", -1,
                  label);
        return complete != 0;
    });
}

void MpiCommunicator::all_gather(TensorView out, TensorView in, const char* label) {
    ESCALIER_CHECK(out.bytes() == in.bytes() * static_cast<std::size_t>(size_), "all_gather: sizes differ");
    const auto bytes = static_cast<std::int64_t>(in.bytes());
    char* to = static_cast<char*>(out.data());
    const char* own = static_cast<const char*>(in.data());
    if (bytes) std::memmove(to + rank_ * bytes, own, in.bytes());
    for (std::int64_t begin = 0; size_ > 1 && begin < bytes; begin += options_.message_bytes) {
        const int count = checked_count(std::min(options_.message_bytes, bytes - begin), "all_gather");
        int used = 0;
        for (int r = 0; r < size_; ++r) {
            if (r == rank_) continue;
            check_mpi(MPI_Irecv(to + r * bytes + begin, count, MPI_BYTE, r, gather_tag, comm_,
                                &requests_[static_cast<std::size_t>(used++)]),
                      "MPI_Irecv", r, label);
        }
        for (int r = 0; r < size_; ++r) {
            if (r == rank_) continue;
            check_mpi(MPI_Isend(to + rank_ * bytes + begin, count, MPI_BYTE, r, gather_tag, comm_,
                                &requests_[static_cast<std::size_t>(used++)]),
                      "MPI_Isend", r, label);
        }
        wait_all(used, label);
    }
}

void MpiCommunicator::broadcast(TensorView x, int root, const char* label) {
    ESCALIER_CHECK(root >= 0 && root < size_, "broadcast: no such rank");
    const auto bytes = static_cast<std::int64_t>(x.bytes());
    for (std::int64_t begin = 0; size_ > 1 && begin < bytes; begin += options_.message_bytes) {
        const int count = checked_count(std::min(options_.message_bytes, bytes - begin), "broadcast");
        check_mpi(
            MPI_Ibcast(static_cast<char*>(x.data()) + begin, count, MPI_BYTE, root, comm_, &requests_[0]),
            "MPI_Ibcast", root, label);
        wait_all(1, label);
    }
}

void MpiCommunicator::barrier(const char* label) {
    if (size_ == 1) return;
    check_mpi(MPI_Ibarrier(comm_, &requests_[0]), "MPI_Ibarrier", -1, label);
    wait_all(1, label);
}

std::unique_ptr<AllReduce> MpiCommunicator::make_all_reduce(TensorView x, TensorView scratch) {
    return queue_->make(x, scratch);
}

std::int64_t MpiCommunicator::all_reduce_scratch_elements(std::int64_t elements) const {
    return queue_->scratch_elements(elements);
}

std::unique_ptr<Communicator> MpiCommunicator::split(int color, int key) {
    MPI_Comm part = MPI_COMM_NULL;
    {
        const WaitScope scope(watchdog_, "the other ranks to split a group", members_);
        check_mpi(MPI_Comm_split(comm_, color < 0 ? MPI_UNDEFINED : color, key, &part), "MPI_Comm_split");
    }
    if (part == MPI_COMM_NULL) return nullptr;
    return std::make_unique<MpiCommunicator>(part, options_, progress_, watchdog_);
}

}  // namespace escalier::comm
