#include "comm/launch_guard.h"

#include <cstdlib>

namespace escalier::comm {

namespace {

long number(const char* text) {
    return text ? std::strtol(text, nullptr, 10) : 0;
}

}  // namespace

std::string launch_problem(const Environment& environment, int world_size) {
    const long mpirun_ranks = number(environment("OMPI_COMM_WORLD_SIZE"));
    if (mpirun_ranks > 0) {
        if (world_size == 0 || world_size == mpirun_ranks) return "";
        return "mpirun started " + std::to_string(mpirun_ranks) +
               " processes (OMPI_COMM_WORLD_SIZE), but MPI "
               "sees " +
               std::to_string(world_size) +
               ": mpirun and the MPI library of this binary are of different installations. Start it with "
               "the "
               "mpirun of the Open MPI that it was built with.";
    }
    const long tasks = number(environment("SLURM_STEP_NUM_TASKS"));
    const bool without_pmix = world_size == 0 ? !environment("PMIX_RANK") : world_size == 1;
    if (tasks > 1 && environment("SLURM_PROCID") && without_pmix)
        return "srun started " + std::to_string(tasks) +
               " tasks (SLURM_STEP_NUM_TASKS), but each of them is an MPI job of its own. Start them with "
               "`srun "
               "--mpi=pmix` or mpirun.";
    return "";
}

}  // namespace escalier::comm
