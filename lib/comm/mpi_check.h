// Every MPI call goes through check_mpi: errors are returned (MPI_ERRORS_RETURN) and become CommError.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <limits>
#include <string>

#include "core/error.h"

namespace escalier::comm {

// peer: rank the call was for, -1 for none; label: what the exchange was about, may be null.
[[noreturn]] void throw_mpi_error(int code, const char* call, int peer, const char* label);

inline void check_mpi(int code, const char* call, int peer = -1, const char* label = nullptr) {
    if (code != MPI_SUCCESS) throw_mpi_error(code, call, peer, label);
}

// MPI counts are int; whoever passes one either chunked before or is refused here.
int checked_count(std::int64_t count, const char* call);

}  // namespace escalier::comm
