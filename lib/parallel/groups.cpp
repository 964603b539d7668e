#include "parallel/groups.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace escalier::parallel {

namespace {

const comm::Communicator& require_size(const comm::Communicator& job, const Grid& grid) {
    if (job.size() == grid.ranks()) return job;
    throw ConfigError("grid " + grid.text() + " (tensor x pipeline x data) needs " +
                      std::to_string(grid.ranks()) + " processes, got " + std::to_string(job.size()) +
                      ". Start it with mpirun -n " + std::to_string(grid.ranks()) +
                      ", or change parallel.tp, parallel.pp or parallel.dp.");
}

bool has_groups(GroupKind kind, const ModelEnds& ends) {
    if (kind == GroupKind::copies) return ends.two_copies;
    if (kind == GroupKind::tied) return !ends.two_copies && ends.first != ends.last;
    return true;
}

}  // namespace

ModelEnds ends_of(const schedule::Schedule& schedule) {
    return {schedule.rank_of(0), schedule.rank_of(schedule.stages() - 1), schedule.copies() == 2};
}

GroupSplit split_of(GroupKind kind, const Grid& grid, const GridPlace& place, int kv_heads,
                    const ModelEnds& ends) {
    if (!has_groups(kind, ends)) return {};
    const int replica_place = place.dp_rank * grid.tp + place.tp_rank;  // one pipeline's ranks have it alike
    const bool first = place.pp_rank == ends.first, last = place.pp_rank == ends.last;
    const int sharers = kv_heads < grid.tp ? grid.tp / kv_heads : 1;  // ranks per key/value head
    switch (kind) {
        case GroupKind::tp:
            return {place.pp_rank * grid.dp + place.dp_rank, place.tp_rank};
        case GroupKind::dp:
            return {place.pp_rank * grid.tp + place.tp_rank, place.dp_rank};
        case GroupKind::pp:
            return {replica_place, place.pp_rank};
        case GroupKind::model:
            return {place.dp_rank, place.pp_rank * grid.tp + place.tp_rank};
        case GroupKind::kv:
            return {grid.rank_of({place.tp_rank / sharers, place.dp_rank, place.pp_rank}), place.tp_rank};
        case GroupKind::copies:
            return {replica_place * grid.pp + std::min(place.pp_rank, grid.pp - 1 - place.pp_rank),
                    place.pp_rank};
        case GroupKind::tied:
            return {first || last ? replica_place : -1, first ? 0 : 1};
    }
    return {};
}

std::vector<int> members_of(GroupKind kind, const Grid& grid, int rank, int kv_heads, const ModelEnds& ends) {
    const auto split = [&](int other) { return split_of(kind, grid, grid.place_of(other), kv_heads, ends); };
    std::vector<int> members;
    const int color = split(rank).color;
    for (int other = 0; color >= 0 && other < grid.ranks(); ++other)
        if (split(other).color == color) members.push_back(other);
    std::stable_sort(members.begin(), members.end(),
                     [&](int a, int b) { return split(a).key < split(b).key; });
    return members;
}

Groups::Groups(comm::Communicator& job, const Grid& grid_, int kv_heads, ModelEnds ends,
               comm::Transport* transport)
    : Groups(grid_, require_size(job, grid_).rank(), kv_heads, ends, transport,
             [&](GroupKind, const GroupSplit& split) { return job.split(split.color, split.key); }) {}

Groups::Groups(const Grid& grid_, int rank, int kv_heads, ModelEnds ends, comm::Transport* transport,
               const Make& make)
    : grid(grid_), place(grid_.place_of(rank)) {
    const auto group = [&](GroupKind kind) -> std::unique_ptr<comm::Communicator> {
        if (!has_groups(kind, ends)) return nullptr;
        return make(kind, split_of(kind, grid, place, kv_heads, ends));
    };
    tp = group(GroupKind::tp);
    dp = group(GroupKind::dp);
    pp = group(GroupKind::pp);
    model = group(GroupKind::model);
    kv = group(GroupKind::kv);
    copies = group(GroupKind::copies);
    tied = group(GroupKind::tied);
    if (!transport) return;
    for (std::unique_ptr<comm::Communicator>* on_device : {&tp, &dp, &kv, &copies, &tied})
        *on_device = transport->on_device(std::move(*on_device));
}

}  // namespace escalier::parallel
