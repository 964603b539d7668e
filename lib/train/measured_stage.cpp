#include "train/measured_stage.h"

#include <algorithm>

#include "comm/planned_communicator.h"
#include "core/error.h"
#include "optim/packed_views.h"
#include "train/planned_backend.h"
#include "train/rank_parts.h"

namespace escalier::train {

namespace {

using parallel::GroupKind;

// A rank that holds one stage, or none, on a machine of planned groups.
class Workbench {
 public:
    Workbench(const config::JobSpec& settled, const StageKind& kind, const PlannedMachine& machine,
              ComputePool& pool)
        : kind_(kind),
          spec_(spec_of(settled, kind)),
          pool_(pool),
          backend_(planned_backend(spec_.run.device, spec_.run.comm, spec_.run.deterministic)),
          groups_(make_groups(static_cast<int>(kind.tp) <= machine.ranks_per_node)),
          job_(comm::planned_group(0, static_cast<int>(kind.tp), true)),
          channels_(*backend_.transport, *groups_.pp, schedule_, {schedule::Program{}}) {}

    // The rank's program with so many slots of each class.
    schedule::Program program(int forward, int linear_inputs, int gradients) const {
        schedule::Program program;
        if (kind_.layers == 0) return program;
        schedule::StageBuffers& chunk = program.chunks.emplace_back();
        chunk.stage = stage();
        chunk.forward_slots = forward;
        chunk.linear_input_slots = linear_inputs;
        chunk.output_gradient_slots = gradients;
        program.instructions.push_back(compute());
        return program;
    }
    // No stage, of a schedule with overlapped pairs.
    schedule::Program pair() const {
        schedule::Program program;
        program.instructions.push_back(compute());
        return program;
    }
    void set_micro_batches(std::int64_t count) { spec_.train.global_batch = count * kind_.micro_batch; }

    Bytes model_alone(const schedule::Program& program) {
        device::Arenas arenas = device::Arenas::measuring();
        const RankModel model(spec_, groups_, backend_, pool_, program, nullptr, arenas);
        return bytes_of(arenas, false);
    }
    MeasuredStage all_of(const schedule::Program& program) {
        device::Arenas arenas = device::Arenas::measuring();
        const RankSeat seat{backend_,
                            groups_,
                            *job_,
                            pool_,
                            program,
                            nullptr,
                            channels_,
                            activity_,
                            [](const char*) { throw InternalError("a planned job was asked to wait"); }};
        const RankParts parts(spec_, seat, arenas);
        MeasuredStage stage;
        stage.fixed = bytes_of(arenas, false);
        stage.checkpoint = bytes_of(arenas, true);
        count_buckets(parts.model.parameters(), stage);
        return stage;
    }
    Bytes on_device(std::int64_t elements, DType dtype) const {
        device::Arena arena("one");
        arena.take(dtype, {elements});
        const auto bytes = static_cast<std::int64_t>(arena.used());
        return backend_.device->is_host() ? Bytes{0, bytes} : Bytes{bytes, 0};
    }
    const config::JobSpec& spec() const { return spec_; }

 private:
    schedule::Instruction compute() const {
        schedule::Instruction compute{};
        compute.kind = schedule::InstructionKind::compute;
        compute.action.kind = kind_.split ? schedule::ActionKind::I : schedule::ActionKind::B;
        compute.action.stage = stage();
        compute.action.overlaps_next = kind_.overlaps;
        return compute;
    }
    static config::JobSpec spec_of(config::JobSpec spec, const StageKind& kind) {
        spec.parallel = {kind.tp, 1, 1};
        spec.train.micro_batch = spec.train.global_batch = kind.micro_batch;
        std::vector<std::int64_t>& layers = spec.pipeline.layers_per_stage;
        layers = {kind.layers};
        if (!kind.first) layers.insert(layers.begin(), 1);
        if (!kind.last) layers.push_back(1);
        spec.train.recompute.assign(layers.size(), kind.recompute);
        spec.train.recompute_every = kind.every;
        return spec;
    }
    int stage() const { return kind_.first ? 0 : 1; }
    // The other end of the model is on another rank.
    parallel::Groups make_groups(bool one_node) {
        const parallel::Grid grid{static_cast<int>(kind_.tp), 1, 1};
        const int kv_heads = static_cast<int>(spec_.model.num_kv_heads);
        return parallel::Groups(grid, 0, kv_heads, {0, 1, false}, backend_.transport.get(),
                                [&](GroupKind group, const parallel::GroupSplit&) {
                                    if (group == GroupKind::tied) return comm::planned_group(0, 2, one_node);
                                    const std::vector<int> members =
                                        parallel::members_of(group, grid, 0, kv_heads, {0, 1, false});
                                    return comm::planned_group(0, static_cast<int>(members.size()), one_node);
                                });
    }
    Bytes bytes_of(const device::Arenas& arenas, bool staging) const {
        Bytes bytes;
        for (const device::ArenaSize& arena : arenas.sizes())
            if ((arena.name == arenas.staging.name()) == staging)
                (backend_.device->is_host() || arena.host ? bytes.host : bytes.device) +=
                    static_cast<std::int64_t>(arena.bytes);
        return bytes;
    }
    static void count_buckets(const model::ParameterList& parameters, MeasuredStage& stage) {
        const std::int64_t most = optim::ReducerOptions{}.bucket_elements;
        std::int64_t packed = 0;
        for (const model::Parameter& parameter : parameters) {
            const std::int64_t elements = parameter.gradient.elements();
            stage.elements += elements;
            if (elements < optim::pack_below_elements) {
                packed += elements;
                continue;
            }
            stage.buckets += (elements + most - 1) / most;
            stage.largest_bucket = std::max(stage.largest_bucket, std::min(elements, most));
        }
        if (packed > 0) ++stage.buckets;
        stage.largest_bucket = std::max(stage.largest_bucket, std::min(packed, most));
    }

    StageKind kind_;
    config::JobSpec spec_;
    ComputePool& pool_;
    Backend backend_;
    parallel::Groups groups_;
    std::unique_ptr<comm::Communicator> job_;
    schedule::Schedule schedule_;  // one rank, one stage
    pipeline::Channels channels_;
    comm::Activity activity_;
};

}  // namespace

MeasuredStage measure_stage(const config::JobSpec& settled, const StageKind& kind,
                            const PlannedMachine& machine, ComputePool& pool) {
    Workbench bench(settled, kind, machine, pool);
    const schedule::Program one = bench.program(1, 1, 1);
    MeasuredStage stage = bench.all_of(one);
    if (kind.layers == 0) {
        // Stages whose actions overlap bring the scratch that others share.
        if (kind.overlaps)
            stage.fixed = stage.fixed - bench.model_alone(one) + bench.model_alone(bench.pair());
        return stage;
    }
    const Bytes alone = bench.model_alone(one);
    const model::ModelShape shape = model::shape_of(bench.spec().model, kind.micro_batch,
                                                    settled.train.seq_len, static_cast<int>(kind.tp), 0);
    const DType storage = settled.train.dtype == "bf16" ? DType::bf16 : DType::f32;
    stage.boundary = bench.on_device(shape.rows * shape.hidden, storage);
    const auto slot = [&](const schedule::Program& more, bool end) {
        const Bytes ends = end ? stage.boundary : Bytes{};
        return SlotBytes{bench.model_alone(more) - alone - ends, ends};
    };
    stage.forward_slot = slot(bench.program(2, 1, 1), kind.first);
    stage.linear_input_slot = slot(bench.program(1, 2, 1), kind.last);
    stage.gradient_slot = slot(bench.program(1, 1, 2), kind.first && kind.split);
    for (const SlotBytes& each : {stage.forward_slot, stage.linear_input_slot, stage.gradient_slot})
        stage.fixed = stage.fixed - each.blocks - each.ends;
    const Bytes table = bench.on_device(shape.vocab_rows * shape.hidden, DType::f32);
    stage.table = settled.optimizer.name == "adamw" ? table * 3 : table;
    bench.set_micro_batches(2);
    stage.tokens = bench.model_alone(one) - alone;
    return stage;
}

MeasuredStage extended(const MeasuredStage& stage, const MeasuredStage& next, std::int64_t layers) {
    const auto more = [&](const Bytes& now, const Bytes& then) { return now + (then - now) * layers; };
    const auto more_slot = [&](const SlotBytes& now, const SlotBytes& then) {
        return SlotBytes{more(now.blocks, then.blocks), more(now.ends, then.ends)};
    };
    MeasuredStage out = stage;
    out.fixed = more(stage.fixed, next.fixed);
    out.forward_slot = more_slot(stage.forward_slot, next.forward_slot);
    out.linear_input_slot = more_slot(stage.linear_input_slot, next.linear_input_slot);
    out.gradient_slot = more_slot(stage.gradient_slot, next.gradient_slot);
    out.checkpoint = more(stage.checkpoint, next.checkpoint);
    out.elements += (next.elements - stage.elements) * layers;
    out.buckets += (next.buckets - stage.buckets) * layers;
    out.largest_bucket = std::max(stage.largest_bucket, next.largest_bucket);
    return out;
}

}  // namespace escalier::train
