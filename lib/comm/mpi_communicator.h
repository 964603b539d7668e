// Communicator over host memory: MPI messages, and memory shared by the ranks of a node where they all live
// on one.
#pragma once

#include <mpi.h>

#include <memory>
#include <vector>

#include "comm/async_reduce.h"
#include "comm/communicator.h"
#include "comm/progress.h"
#include "comm/reduce_lane.h"
#include "comm/sum_scratch.h"
#include "comm/watchdog.h"

namespace escalier::comm {

struct CommOptions {
    bool shared_memory = true;                    // false: messages even within a node
    std::int64_t slot_bytes = shared_slot_bytes;  // shared memory: see make_shared_lane
    std::int64_t background_slot_bytes =
        shared_background_slot_bytes;                      // of sums in the background: fewer, longer steps
    std::int64_t chunk_elements = message_chunk_elements;  // messages: see make_message_lane
    std::int64_t message_bytes = std::int64_t{1} << 30;    // longest single message of gathers and broadcasts
};

class MpiCommunicator final : public Communicator {
 public:
    // Takes `comm` over. Collective. progress and watchdog outlive it.
    MpiCommunicator(MPI_Comm comm, const CommOptions& options, Progress& progress, Watchdog& watchdog);
    ~MpiCommunicator() override;
    MpiCommunicator(const MpiCommunicator&) = delete;
    MpiCommunicator& operator=(const MpiCommunicator&) = delete;

    int rank() const override { return rank_; }
    int size() const override { return size_; }
    void all_reduce_sum(TensorView x, const char* label) override;
    void all_reduce_max(TensorView x, const char* label) override;
    void all_gather(TensorView out, TensorView in, const char* label) override;
    void broadcast(TensorView x, int root, const char* label) override;
    void barrier(const char* label) override;
    std::unique_ptr<AllReduce> make_all_reduce(TensorView x, TensorView scratch) override;
    std::int64_t all_reduce_scratch_elements(std::int64_t elements) const override;
    std::unique_ptr<Communicator> split(int color, int key) override;

    MPI_Comm mpi_comm() const { return comm_; }
    bool shares_memory() const { return shares_memory_; }

 private:
    void reduce(TensorView x, Combine combine, const char* label);
    void wait_all(int requests, const char* label);

    MPI_Comm comm_;
    int rank_ = 0;
    int size_ = 1;
    RankSet members_;  // in the world
    CommOptions options_;
    Progress& progress_;
    Watchdog& watchdog_;
    bool shares_memory_ = false;
    std::unique_ptr<ReduceLane> lane_;  // of blocking reductions; null for one rank
    std::vector<double> scratch_;       // of lane_
    std::unique_ptr<AsyncReduceQueue> queue_;
    std::vector<MPI_Request> requests_;  // of gathers
};

}  // namespace escalier::comm
