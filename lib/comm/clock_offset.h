// The difference between the clocks of two hosts, by messages to and fro.
#pragma once

#include <mpi.h>

namespace escalier::comm {

// Seconds to add to this rank's clock to read that of rank 0 of `comm`; collective. Half of the shortest of
// 32 round trips bounds the error (Cristian, "Probabilistic clock synchronization", 1989).
double measure_clock_offset(MPI_Comm comm);

}  // namespace escalier::comm
