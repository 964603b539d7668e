// MPI for the tests of one binary, from main() on; every rank runs the same tests in the same order. Checks
// between collectives never return early, or the other ranks would wait.
#pragma once

#include "comm/mpi_env.h"

namespace escalier::multirank {

comm::MpiEnv& mpi();

}  // namespace escalier::multirank
