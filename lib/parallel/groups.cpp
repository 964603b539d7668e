#include "parallel/groups.h"

#include "core/error.h"

namespace escalier::parallel {

namespace {

void require_size(const comm::Communicator& job, const Grid& grid) {
    if (job.size() == grid.ranks()) return;
    throw ConfigError("grid " + grid.text() + " (tensor x pipeline x data) needs " +
                      std::to_string(grid.ranks()) + " processes, got " + std::to_string(job.size()) +
                      ". Start it with mpirun -n " + std::to_string(grid.ranks()) +
                      ", or change parallel.tp, parallel.pp or parallel.dp.");
}

}  // namespace

Groups::Groups(comm::Communicator& job, const Grid& grid_, int kv_heads) : grid(grid_) {
    require_size(job, grid);
    place = grid.place_of(job.rank());
    tp = job.split(place.pp_rank * grid.dp + place.dp_rank, place.tp_rank);
    dp = job.split(place.pp_rank * grid.tp + place.tp_rank, place.dp_rank);
    pp = job.split(place.dp_rank * grid.tp + place.tp_rank, place.pp_rank);
    model = job.split(place.dp_rank, place.pp_rank * grid.tp + place.tp_rank);
    const int copies = kv_heads < grid.tp ? grid.tp / kv_heads : 1;  // ranks per key/value head
    kv = tp->split(place.tp_rank / copies, place.tp_rank);
    const bool at_an_end = place.pp_rank == 0 || place.pp_rank == grid.pp - 1;
    tied = pp->split(at_an_end ? 0 : -1, place.pp_rank);
}

}  // namespace escalier::parallel
