// Texts and records of any length from all ranks to the first one.
#pragma once

#include <mpi.h>

#include <functional>
#include <string>

#include "comm/watchdog.h"

namespace escalier::comm {

// See MpiEnv::gather_bytes. Waits under `label` for the watchdog.
void gather_bytes(MPI_Comm comm, Watchdog& watchdog, const std::string& bytes, const char* label,
                  const std::function<void(int rank, std::string bytes)>& take);

}  // namespace escalier::comm
