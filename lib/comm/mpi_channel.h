// A channel over MPI: two ranks with a communicator of their own.
#pragma once

#include <mpi.h>

#include <vector>

#include "comm/communicator.h"
#include "comm/progress.h"
#include "comm/watchdog.h"

namespace escalier::comm {

class MpiChannel final : public Channel {
 public:
    // Takes `pair` over, a communicator of two ranks; peer_world_rank names the other one to the watchdog.
    // synchronous: a send is done only when its receive has begun, as it may always be for large messages.
    MpiChannel(MPI_Comm pair, int peer_world_rank, int depth, bool synchronous, Progress& progress,
               Watchdog& watchdog);
    ~MpiChannel() override;
    MpiChannel(const MpiChannel&) = delete;
    MpiChannel& operator=(const MpiChannel&) = delete;

    int start_send(TensorView x) override;
    int start_receive(TensorView x) override;
    bool done(int ticket) override;
    void wait(int ticket, const char* label) override;

 private:
    int take_ticket();
    bool test(int ticket, const char* label);

    MPI_Comm comm_;
    int peer_;  // in comm_
    int peer_world_rank_;
    bool synchronous_;
    Progress& progress_;
    Watchdog& watchdog_;
    std::vector<MPI_Request> requests_;  // by ticket
    std::vector<int> free_;
};

}  // namespace escalier::comm
