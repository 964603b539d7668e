// What a launch must know of the machine that it starts on.
#pragma once

namespace escalier::launch {

struct Machine {
    int cores = 1;      // whole cores that this process may use: Open MPI counts its slots in them
    int gpus = 0;       // visible
    bool root = false;  // Open MPI's mpirun refuses root unless it is told otherwise
};

}  // namespace escalier::launch
