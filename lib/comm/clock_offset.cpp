#include "comm/clock_offset.h"

#include <limits>

#include "comm/mpi_check.h"
#include "core/clock.h"

namespace escalier::comm {

namespace {

constexpr int round_trips = 32;

void answer(MPI_Comm comm, int peer) {
    for (int i = 0; i < round_trips; ++i) {
        check_mpi(MPI_Recv(nullptr, 0, MPI_DOUBLE, peer, 0, comm, MPI_STATUS_IGNORE), "MPI_Recv", peer);
        const double now = now_seconds();
        check_mpi(MPI_Send(&now, 1, MPI_DOUBLE, peer, 0, comm), "MPI_Send", peer);
    }
}

double ask(MPI_Comm comm) {
    double shortest = std::numeric_limits<double>::infinity(), offset = 0;
    for (int i = 0; i < round_trips; ++i) {
        double theirs = 0;
        const double begin = now_seconds();
        check_mpi(MPI_Send(nullptr, 0, MPI_DOUBLE, 0, 0, comm), "MPI_Send", 0);
        check_mpi(MPI_Recv(&theirs, 1, MPI_DOUBLE, 0, 0, comm, MPI_STATUS_IGNORE), "MPI_Recv", 0);
        const double end = now_seconds();
        if (end - begin >= shortest) continue;
        shortest = end - begin;
        offset = theirs - 0.5 * (begin + end);
    }
    return offset;
}

}  // namespace

double measure_clock_offset(MPI_Comm comm) {
    int rank = 0, size = 1;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    if (rank != 0) return ask(comm);
    for (int peer = 1; peer < size; ++peer) answer(comm, peer);
    return 0;
}

}  // namespace escalier::comm
