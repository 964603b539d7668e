#include "train/memory_oracle.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "comm/planned_communicator.h"
#include "core/error.h"
#include "optim/grad_reducer.h"
#include "parallel/rank_table.h"
#include "schedule/estimate_slots.h"
#include "train/measured_stage.h"
#include "train/outside_arenas.h"

namespace escalier::train {

namespace {

bool has_embedding_and_head(const std::vector<schedule::StageBuffers>& chunks, int stages) {
    const auto holds = [&](int stage) {
        return std::any_of(chunks.begin(), chunks.end(), [&](const auto& c) { return c.stage == stage; });
    };
    return stages > 1 && holds(0) && holds(stages - 1);
}

}  // namespace

struct MemoryOracle::State {
    PlannedMachine machine;
    ComputePool pool;
    std::map<StageKind, MeasuredStage> stages;

    explicit State(const PlannedMachine& on) : machine(on), pool(on.threads) {}

    const MeasuredStage& measured(const config::JobSpec& spec, const StageKind& kind) {
        const auto found = stages.find(kind);
        if (found != stages.end()) return found->second;
        return stages.emplace(kind, measure_stage(spec, kind, machine, pool)).first->second;
    }
    // Groups of layers under recompute make steps; else every layer behind the second adds the same.
    MeasuredStage stage(const config::JobSpec& spec, StageKind kind) {
        constexpr std::int64_t first_alike = 2;
        const bool steps = kind.recompute == config::Recompute::full && kind.every > 1;
        if (steps || kind.layers <= first_alike + 1) return measured(spec, kind);
        const std::int64_t more = kind.layers - first_alike;
        kind.layers = first_alike;
        const MeasuredStage small = measured(spec, kind);
        kind.layers = first_alike + 1;
        return extended(small, measured(spec, kind), more);
    }
    std::int64_t rank_bytes(const config::JobSpec& spec, const schedule::Schedule& schedule, int pp_rank);
    Bytes reduction(const config::JobSpec& spec, const MeasuredStage& all) const;
    OutsideArenas outside(const config::JobSpec& spec, const schedule::Schedule& schedule, int pp_rank) const;
};

// Scratch of the sums over replicas, at most: of as many buckets as may be under way, each as large as the
// largest, or of all.
Bytes MemoryOracle::State::reduction(const config::JobSpec& spec, const MeasuredStage& all) const {
    const int tp = static_cast<int>(spec.parallel.tp), dp = static_cast<int>(spec.parallel.dp);
    if (dp == 1) return {};
    const bool one_node = (dp - 1) * tp < machine.ranks_per_node;
    const auto group = comm::planned_transport(spec.run.comm, spec.run.deterministic)
                           ->on_device(comm::planned_group(0, dp, one_node));
    const std::int64_t under_way = std::min<std::int64_t>(all.buckets, optim::ReducerOptions{}.slots);
    const std::int64_t bytes =
        4 * std::min(under_way * group->all_reduce_scratch_elements(all.largest_bucket),
                     group->all_reduce_scratch_elements(all.elements));
    return spec.run.device == "cuda" ? Bytes{bytes, 0} : Bytes{0, bytes};
}

OutsideArenas MemoryOracle::State::outside(const config::JobSpec& spec, const schedule::Schedule& schedule,
                                           int pp_rank) const {
    const int tp = static_cast<int>(spec.parallel.tp), dp = static_cast<int>(spec.parallel.dp);
    const int kv_heads = static_cast<int>(spec.model.num_kv_heads);
    const int per_node = machine.ranks_per_node;
    const int ranks = tp * dp * static_cast<int>(spec.parallel.pp);
    std::vector<GroupExtent> groups = {
        {parallel::GroupKind::tp, tp, tp <= per_node},
        {parallel::GroupKind::dp, dp, (dp - 1) * tp < per_node},
        {parallel::GroupKind::kv, kv_heads < tp ? tp / kv_heads : 1, tp <= per_node}};
    if (schedule.copies() == 2) groups.push_back({parallel::GroupKind::copies, 2, ranks <= per_node});
    const parallel::ModelEnds ends = parallel::ends_of(schedule);
    const bool at_end = pp_rank == ends.first || pp_rank == ends.last;
    if (at_end && ends.first != ends.last && !ends.two_copies)
        groups.push_back({parallel::GroupKind::tied, 2, ranks <= per_node});
    return outside_arenas(spec, pool.threads(), schedule.has_overlaps(), ranks, groups);
}

std::int64_t MemoryOracle::State::rank_bytes(const config::JobSpec& spec, const schedule::Schedule& schedule,
                                             int pp_rank) {
    const std::vector<int> stages_here = parallel::stages_of_rank(schedule, pp_rank);
    const auto layers = [&](int stage) {
        return spec.pipeline.layers_per_stage[static_cast<std::size_t>(stage)];
    };
    const auto recompute = [&](int stage) { return spec.train.recompute[static_cast<std::size_t>(stage)]; };
    std::vector<int> groups(stages_here.size());
    for (std::size_t chunk = 0; chunk < groups.size(); ++chunk)
        while (layers(stages_here[static_cast<std::size_t>(groups[chunk])]) != layers(stages_here[chunk]) ||
               recompute(stages_here[static_cast<std::size_t>(groups[chunk])]) !=
                   recompute(stages_here[chunk]))
            ++groups[chunk];
    const std::vector<schedule::StageBuffers> chunks = schedule::estimate_slots(schedule, pp_rank, groups);

    StageKind kind{.tp = spec.parallel.tp,
                   .micro_batch = spec.train.micro_batch,
                   .split = schedule.has_split_backward(),
                   .overlaps = schedule.has_overlaps()};
    MeasuredStage all = measured(spec, kind);  // of no stage
    const Bytes rank_alone = all.fixed;
    for (std::size_t i = 0; i < chunks.size(); ++i) {
        const schedule::StageBuffers& chunk = chunks[i];
        kind.layers = layers(chunk.stage);
        kind.recompute = recompute(chunk.stage);
        kind.every = spec.train.recompute_every;
        kind.first = chunk.stage == 0;
        kind.last = chunk.stage + 1 == schedule.stages();
        const MeasuredStage stage = this->stage(spec, kind);
        all.fixed = all.fixed + stage.fixed - rank_alone;
        const bool owner = groups[i] == static_cast<int>(i);
        // Slots in common are there once; what the ends of the model keep in them is not.
        const auto slots = [&](int count, const SlotBytes& each) {
            return (owner ? each.blocks * count : Bytes{}) + each.ends * count;
        };
        all.fixed = all.fixed + slots(chunk.forward_slots, stage.forward_slot) +
                    slots(chunk.linear_input_slots, stage.linear_input_slot) +
                    slots(std::max(1, chunk.output_gradient_slots), stage.gradient_slot);
        all.fixed = all.fixed + stage.boundary * (chunk.inputs + chunk.outputs + chunk.output_gradients +
                                                  chunk.input_gradients);
        all.fixed = all.fixed + stage.tokens * (spec.micro_batches() - 1);
        if (chunk.copy == 0)
            all.checkpoint = all.checkpoint + stage.checkpoint;  // what copies have is saved once
        all.buckets += stage.buckets;
        all.elements += stage.elements;
        all.largest_bucket = std::max(all.largest_bucket, stage.largest_bucket);
        if (kind.first && has_embedding_and_head(chunks, schedule.stages()) && spec.model.tie_embeddings)
            all.fixed = all.fixed - stage.table;  // one for both
    }
    const Bytes arenas = all.fixed + all.checkpoint / spec.parallel.dp + reduction(spec, all);
    const OutsideArenas besides = outside(spec, schedule, pp_rank);
    return spec.run.device == "cuda" ? arenas.device + besides.device : arenas.host + besides.host;
}

MemoryOracle::MemoryOracle(const PlannedMachine& machine) : state_(std::make_unique<State>(machine)) {}
MemoryOracle::~MemoryOracle() = default;

std::vector<std::int64_t> MemoryOracle::bytes(const config::JobSpec& asked,
                                              const schedule::Schedule& schedule) {
    const config::JobSpec spec = settled_on(asked, state_->machine);
    std::vector<std::int64_t> bytes;
    for (int pp_rank = 0; pp_rank < schedule.pp; ++pp_rank)
        bytes.push_back(state_->rank_bytes(spec, schedule, pp_rank));
    return bytes;
}

}  // namespace escalier::train
