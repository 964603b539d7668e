// MPI in a test binary that mpirun starts. One of its files includes multirank_main.h, which owns it.
#pragma once

#include "comm/mpi_env.h"

namespace escalier::test {

inline comm::MpiEnv* environment = nullptr;
inline comm::MpiEnv& env() {
    return *environment;
}

}  // namespace escalier::test
