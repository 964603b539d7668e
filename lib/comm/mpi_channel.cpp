#include "comm/mpi_channel.h"

#include "comm/mpi_check.h"
#include "comm/wait.h"
#include "core/check.h"

namespace escalier::comm {

namespace {

MPI_Datatype mpi_type(DType dtype) {
    switch (dtype) {
        case DType::f32:
            return MPI_FLOAT;
        case DType::bf16:
            return MPI_UINT16_T;
        case DType::i32:
            return MPI_INT32_T;
        case DType::f64:
            return MPI_DOUBLE;
        case DType::u8:
            return MPI_BYTE;
        case DType::u64:
            return MPI_UINT64_T;
    }
    return MPI_BYTE;
}

}  // namespace

MpiChannel::MpiChannel(MPI_Comm pair, int peer_world_rank, int depth, bool synchronous, Progress& progress,
                       Watchdog& watchdog)
    : comm_(pair),
      peer_world_rank_(peer_world_rank),
      synchronous_(synchronous),
      progress_(progress),
      watchdog_(watchdog),
      requests_(static_cast<std::size_t>(depth), MPI_REQUEST_NULL) {
    int rank = 0;
    check_mpi(MPI_Comm_rank(comm_, &rank), "MPI_Comm_rank");
    peer_ = 1 - rank;
    for (int ticket = depth - 1; ticket >= 0; --ticket) free_.push_back(ticket);
}

MpiChannel::~MpiChannel() {
    MPI_Comm_free(&comm_);
}

int MpiChannel::take_ticket() {
    ESCALIER_CHECK(!free_.empty(), "more messages under way than the channel's depth");
    const int ticket = free_.back();
    free_.pop_back();
    return ticket;
}

int MpiChannel::start_send(TensorView x) {
    const int ticket = take_ticket();
    const auto send = synchronous_ ? MPI_Issend : MPI_Isend;
    check_mpi(send(x.data(), checked_count(x.elements(), "MPI_Isend"), mpi_type(x.dtype()), peer_, 0, comm_,
                   &requests_[static_cast<std::size_t>(ticket)]),
              "MPI_Isend", peer_world_rank_);
    progress_.started();
    return ticket;
}

int MpiChannel::start_receive(TensorView x) {
    const int ticket = take_ticket();
    check_mpi(MPI_Irecv(x.data(), checked_count(x.elements(), "MPI_Irecv"), mpi_type(x.dtype()), peer_, 0,
                        comm_, &requests_[static_cast<std::size_t>(ticket)]),
              "MPI_Irecv", peer_world_rank_);
    progress_.started();
    return ticket;
}

bool MpiChannel::test(int ticket, const char* label) {
    int complete = 0;
    check_mpi(MPI_Test(&requests_[static_cast<std::size_t>(ticket)], &complete, MPI_STATUS_IGNORE),
              "MPI_Test", peer_world_rank_, label);
    if (!complete) return false;
    progress_.finished();
    free_.push_back(ticket);  // never beyond its first capacity
    return true;
}

bool MpiChannel::done(int ticket) {
    return test(ticket, nullptr);
}

void MpiChannel::wait(int ticket, const char* label) {
    wait_until(watchdog_, label, RankSet::one(peer_world_rank_), [&] { return test(ticket, label); });
}

}  // namespace escalier::comm
