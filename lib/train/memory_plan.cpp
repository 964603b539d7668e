#include "train/memory_plan.h"

#include <algorithm>
#include <utility>

#include "checkpoint/share.h"
#include "comm/planned_communicator.h"
#include "config/device_rules.h"
#include "core/error.h"
#include "train/outside_arenas.h"
#include "train/planned_backend.h"
#include "train/rank_parts.h"

namespace escalier::train {

namespace {

bool one_node(const std::vector<int>& members, int ranks_per_node) {
    return std::all_of(members.begin(), members.end(),
                       [&](int rank) { return rank / ranks_per_node == members.front() / ranks_per_node; });
}

}  // namespace

std::int64_t RankMemory::in_arenas(bool host) const {
    std::int64_t bytes = 0;
    for (const device::ArenaSize& arena : arenas)
        if (host == (!gpu || arena.host)) bytes += static_cast<std::int64_t>(arena.bytes);
    return bytes;
}

config::JobSpec settled_on(const config::JobSpec& spec, const PlannedMachine& machine) {
    const std::string device = spec.run.device == "auto" ? machine.device : spec.run.device;
    const std::string comm = device == "cpu"           ? "mpi"
                             : spec.run.comm != "auto" ? spec.run.comm
                             : spec.run.share_gpu      ? "staged"
                                                       : "nccl";
    return config::on_device(spec, device, comm);
}

bool plans_validation(const config::JobSpec& spec) {
    return spec.eval.every > 0;
}

struct PlannedJob::State {
    PlannedMachine machine;
    config::JobSpec spec;
    JobPrograms programs;
    parallel::Grid grid;
    parallel::ModelEnds ends;
    int kv_heads;
    ComputePool pool;
    comm::Activity activity;

    // One rank's parts on measuring arenas.
    struct Rank {
        Backend backend;
        parallel::Groups groups;
        std::unique_ptr<comm::Communicator> job;
        pipeline::Channels channels;
        device::Arenas arenas;
        RankParts parts;

        Rank(State& state, int rank);
    };

    State(const config::JobSpec& asked, const PlannedMachine& on)
        : machine(on),
          spec(settled_on(asked, on)),
          programs(spec, std::nullopt, plans_validation(spec)),
          grid(grid_of(spec)),
          ends(parallel::ends_of(programs.schedule)),
          kv_heads(static_cast<int>(spec.model.num_kv_heads)),
          pool(static_cast<int>(spec.run.threads.value_or(on.threads))) {}

    std::vector<int> members(parallel::GroupKind kind, int rank) const {
        return parallel::members_of(kind, grid, rank, kv_heads, ends);
    }
    parallel::Groups groups(int rank, comm::Transport& transport) const {
        return parallel::Groups(
            grid, rank, kv_heads, ends, &transport,
            [&](parallel::GroupKind kind,
                const parallel::GroupSplit&) -> std::unique_ptr<comm::Communicator> {
                const std::vector<int> ranks = members(kind, rank);
                if (ranks.empty()) return nullptr;
                const auto place = std::find(ranks.begin(), ranks.end(), rank) - ranks.begin();
                return comm::planned_group(static_cast<int>(place), static_cast<int>(ranks.size()),
                                           one_node(ranks, machine.ranks_per_node));
            });
    }
    RankSeat seat(Rank& rank) {
        const int pp_rank = rank.groups.place.pp_rank;
        return {rank.backend,
                rank.groups,
                *rank.job,
                pool,
                programs.program(pp_rank),
                programs.forward(pp_rank),
                rank.channels,
                activity,
                [](const char*) { throw InternalError("a planned job was asked to wait"); }};
    }
    void add_outside(RankMemory& memory) const;
    RankMemory memory_of(const Rank& built) const;
};

PlannedJob::State::Rank::Rank(State& state, int rank)
    : backend(planned_backend(state.spec.run.device, state.spec.run.comm, state.spec.run.deterministic)),
      groups(state.groups(rank, *backend.transport)),
      job(comm::planned_group(rank, state.grid.ranks(), state.grid.ranks() <= state.machine.ranks_per_node)),
      channels(*backend.transport, *groups.pp, state.programs.schedule, state.programs.training,
               state.programs.validation),
      arenas(device::Arenas::measuring()),
      parts(state.spec, state.seat(*this), arenas) {}

void PlannedJob::State::add_outside(RankMemory& memory) const {
    std::vector<GroupExtent> groups;
    for (const parallel::GroupKind kind : parallel::group_kinds) {
        const std::vector<int> ranks = members(kind, memory.rank);
        if (!ranks.empty())
            groups.push_back({kind, static_cast<int>(ranks.size()), one_node(ranks, machine.ranks_per_node)});
    }
    const OutsideArenas outside =
        outside_arenas(spec, pool.threads(), programs.schedule.has_overlaps(), grid.ranks(), groups);
    memory.outside_host = outside.host;
    memory.outside_device = outside.device;
}

RankMemory PlannedJob::State::memory_of(const Rank& built) const {
    RankMemory memory;
    memory.place = built.groups.place;
    memory.rank = grid.rank_of(memory.place);
    memory.arenas = built.arenas.sizes();
    memory.gpu = spec.run.device == "cuda";
    add_outside(memory);
    return memory;
}

PlannedJob::PlannedJob(const config::JobSpec& spec, const PlannedMachine& machine)
    : state_(std::make_unique<State>(spec, machine)) {}
PlannedJob::~PlannedJob() = default;
PlannedJob::PlannedJob(PlannedJob&&) noexcept = default;

const config::JobSpec& PlannedJob::spec() const {
    return state_->spec;
}

const JobPrograms& PlannedJob::programs() const {
    return state_->programs;
}

const PlannedMachine& PlannedJob::machine() const {
    return state_->machine;
}

RankMemory PlannedJob::memory_of(int rank) const {
    return state_->memory_of(State::Rank(*state_, rank));
}

std::vector<RankMemory> PlannedJob::all_ranks() const {
    std::vector<RankMemory> ranks;
    for (int rank = 0; rank < state_->grid.ranks(); ++rank) ranks.push_back(memory_of(rank));
    return ranks;
}

std::vector<RankMemory> PlannedJob::fullest_ranks() const {
    State& s = *state_;
    constexpr int all_looked_at = 1024;
    const int tp_ranks = s.grid.ranks() <= all_looked_at ? s.grid.tp : 1;
    const auto keep_more = [](RankMemory& most, RankMemory other) {
        if (other.arena_bytes() > most.arena_bytes()) most = std::move(other);
    };
    std::vector<RankMemory> fullest;
    for (int pp_rank = 0; pp_rank < s.grid.pp; ++pp_rank) {
        RankMemory most;
        for (int tp_rank = 0; tp_rank < tp_ranks; ++tp_rank) {
            const State::Rank first(s, s.grid.rank_of({tp_rank, 0, pp_rank}));
            keep_more(most, s.memory_of(first));
            const int dp_rank = checkpoint::fullest_share(first.parts.state, s.grid.dp);
            if (dp_rank != 0) keep_more(most, memory_of(s.grid.rank_of({tp_rank, dp_rank, pp_rank})));
        }
        fullest.push_back(std::move(most));
    }
    return fullest;
}

}  // namespace escalier::train
