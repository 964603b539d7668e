#include "comm/gather_bytes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "comm/mpi_check.h"
#include "comm/wait.h"

namespace escalier::comm {

namespace {

constexpr int tag = 0x6762;  // clock_offset.cpp, on the same communicators, uses 0
constexpr std::size_t most_at_once = std::size_t{1} << 28;

struct Exchange {
    MPI_Comm comm;
    Watchdog& watchdog;
    const char* label;

    void wait(MPI_Request request) const {
        wait_until(watchdog, label, {}, [&] {
            int done = 0;
            check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test", -1, label);
            return done != 0;
        });
    }
    void send(const void* data, std::size_t bytes) const {
        MPI_Request request = MPI_REQUEST_NULL;
        check_mpi(MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, 0, tag, comm, &request), "MPI_Isend", 0,
                  label);
        wait(request);
    }
    void receive(int from, void* data, std::size_t bytes) const {
        MPI_Request request = MPI_REQUEST_NULL;
        check_mpi(MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, from, tag, comm, &request), "MPI_Irecv",
                  from, label);
        wait(request);
    }
};

}  // namespace

void gather_bytes(MPI_Comm comm, Watchdog& watchdog, const std::string& bytes, const char* label,
                  const std::function<void(int rank, std::string bytes)>& take) {
    int rank = 0, size = 1;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    const Exchange exchange{comm, watchdog, label};
    const auto in_pieces = [](std::size_t total, const auto& move) {
        for (std::size_t at = 0; at < total; at += most_at_once) move(at, std::min(most_at_once, total - at));
    };
    if (rank != 0) {
        const std::uint64_t total = bytes.size();
        exchange.send(&total, sizeof total);
        return in_pieces(total,
                         [&](std::size_t at, std::size_t count) { exchange.send(bytes.data() + at, count); });
    }
    take(0, bytes);
    for (int from = 1; from < size; ++from) {
        std::uint64_t total = 0;
        exchange.receive(from, &total, sizeof total);
        std::string theirs(total, '\0');
        in_pieces(total, [&](std::size_t at, std::size_t count) {
            exchange.receive(from, theirs.data() + at, count);
        });
        take(from, std::move(theirs));
    }
}

}  // namespace escalier::comm
