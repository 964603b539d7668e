#include "parallel/groups.h"

#include <algorithm>
#include <utility>

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

ModelEnds ends_of(const schedule::Schedule& schedule) {
    return {schedule.rank_of(0), schedule.rank_of(schedule.stages() - 1), schedule.copies() == 2};
}

Groups::Groups(comm::Communicator& job, const Grid& grid_, int kv_heads, ModelEnds ends,
               comm::Transport* transport)
    : grid(grid_) {
    require_size(job, grid);
    place = grid.place_of(job.rank());
    tp = job.split(place.pp_rank * grid.dp + place.dp_rank, place.tp_rank);
    dp = job.split(place.pp_rank * grid.tp + place.tp_rank, place.dp_rank);
    pp = job.split(place.dp_rank * grid.tp + place.tp_rank, place.pp_rank);
    model = job.split(place.dp_rank, place.pp_rank * grid.tp + place.tp_rank);
    const int sharers = kv_heads < grid.tp ? grid.tp / kv_heads : 1;  // ranks per key/value head
    kv = tp->split(place.tp_rank / sharers, place.tp_rank);
    const bool first = place.pp_rank == ends.first, last = place.pp_rank == ends.last;
    if (ends.two_copies)
        copies = pp->split(std::min(place.pp_rank, grid.pp - 1 - place.pp_rank), place.pp_rank);
    else if (ends.first != ends.last)
        tied = pp->split(first || last ? 0 : -1, first ? 0 : 1);
    if (!transport) return;
    for (std::unique_ptr<comm::Communicator>* group : {&tp, &dp, &kv, &copies, &tied})
        *group = transport->on_device(std::move(*group));
}

}  // namespace escalier::parallel
