#include "train/rank_model.h"

#include <algorithm>
#include <numeric>

#include "train/stage_costs.h"

namespace escalier::train {

namespace {

OpContext take_op_context(const model::ModelShape& shape, const Backend& backend, ComputePool& pool,
                          device::Arena& workspace) {
    const std::int64_t columns =
        std::max({shape.hidden, shape.qkv_width(), 2 * shape.ffn, shape.vocab_rows, shape.attention_width()});
    const std::size_t bytes = backend.scratch_bytes(
        {shape.rows, columns, shape.batch, shape.sequence, shape.heads, shape.head_size}, pool.threads());
    return backend.device->op_context(
        pool, workspace.take(DType::u8, {static_cast<std::int64_t>(bytes)}).data(), bytes);
}

model::ModelContext make_context(const config::JobSpec& spec, const parallel::Groups& groups,
                                 const Backend& backend, const kernels::Ops& ops, ComputePool& pool,
                                 device::Arenas& arenas) {
    const model::ModelShape shape = model::shape_of(spec.model, spec.train.micro_batch, spec.train.seq_len,
                                                    groups.grid.tp, groups.place.tp_rank);
    return {ops,
            take_op_context(shape, backend, pool, arenas.workspace),
            *groups.tp,
            spec.model,
            shape,
            static_cast<std::uint64_t>(spec.run.seed),
            spec.train.dtype == "bf16" ? DType::bf16 : DType::f32,
            backend.device->is_host() ? model::ModelContext::default_logits_bytes : std::int64_t{1} << 30};
}

schedule::StageBuffers enough_for_both(schedule::StageBuffers a, const schedule::Program* forward,
                                       std::size_t chunk) {
    if (!forward) return a;
    const schedule::StageBuffers& b = forward->chunks[chunk];
    a.forward_slots = std::max(a.forward_slots, b.forward_slots);
    a.linear_input_slots = std::max(a.linear_input_slots, b.linear_input_slots);
    return a;
}

template <class Holds>
bool any_action(const schedule::Program& program, const Holds& holds) {
    return std::any_of(
        program.instructions.begin(), program.instructions.end(), [&](const auto& instruction) {
            return instruction.kind == schedule::InstructionKind::compute && holds(instruction);
        });
}

bool has_split_backward(const schedule::Program& program) {
    return any_action(program, [](const schedule::Instruction& instruction) {
        return instruction.action.kind == schedule::ActionKind::I;
    });
}

bool has_overlaps(const schedule::Program& program) {
    return any_action(
        program, [](const schedule::Instruction& instruction) { return instruction.action.overlaps_next; });
}

// The chunks in the order in which their stages are built: the embedding's first, whose table a tied head on
// the same rank shares. With two copies of the model that head belongs to the other copy; both tables have
// the same values, and the sums over copies and over the tied pair leave the same gradient for both.
std::vector<std::size_t> building_order(const schedule::Program& program) {
    std::vector<std::size_t> order(program.chunks.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_partition(order.begin(), order.end(),
                          [&](std::size_t chunk) { return program.chunks[chunk].stage == 0; });
    return order;
}

}  // namespace

std::vector<int> slot_groups(const config::JobSpec& spec, const schedule::Program& program) {
    const auto alike = [&](const schedule::StageBuffers& a, const schedule::StageBuffers& b) {
        const auto i = static_cast<std::size_t>(a.stage), j = static_cast<std::size_t>(b.stage);
        return spec.pipeline.layers_per_stage[i] == spec.pipeline.layers_per_stage[j] &&
               spec.train.recompute[i] == spec.train.recompute[j];
    };
    std::vector<int> groups(program.chunks.size());
    for (std::size_t chunk = 0; chunk < groups.size(); ++chunk)
        groups[chunk] = static_cast<int>(
            std::find_if(program.chunks.begin(), program.chunks.end(),
                         [&](const auto& other) { return alike(program.chunks[chunk], other); }) -
            program.chunks.begin());
    return groups;
}

RankModel::RankModel(const config::JobSpec& spec, const parallel::Groups& groups, const Backend& backend,
                     ComputePool& pool, const schedule::Program& program, const schedule::Program* forward,
                     device::Arenas& arenas, const AssemblyHooks& hooks)
    : context_(make_context(spec, groups, backend, hooks.ops ? *hooks.ops : backend.ops, pool, arenas)),
      stages_(program.chunks.size()),
      device_(*backend.device) {
    // Chunks whose actions run interleaved must not share scratch.
    const bool overlaps = has_overlaps(program);
    for (std::size_t i = 0; i < (overlaps ? program.chunks.size() : 1); ++i)
        shared_.push_back(std::make_unique<model::RankShared>(context_, arenas, overlaps));
    const std::vector<int> groups_of_slots = slot_groups(spec, program);
    std::vector<const model::StageModel*> first_of_group(stages_.size(), nullptr);
    const model::Weight* table = nullptr;
    for (const std::size_t chunk : building_order(program)) {
        const int stage_index = program.chunks[chunk].stage;
        const parallel::StagePart part = parallel::part_of_stage(spec.pipeline.layers_per_stage, stage_index);
        const model::RecomputePlan recompute{spec.train.recompute[static_cast<std::size_t>(stage_index)],
                                             spec.train.recompute_every};
        const model::StageModel*& first = first_of_group[static_cast<std::size_t>(groups_of_slots[chunk])];
        stages_[chunk] = std::make_unique<model::StageModel>(
            context_, stage_index, part, recompute, has_split_backward(program),
            model::StageSlots{enough_for_both(program.chunks[chunk], forward, chunk), first}, arenas,
            *shared_[overlaps ? chunk : 0], table);
        model::StageModel& stage = *stages_[chunk];
        if (!first) first = &stage;
        if (part.embedding) {
            first_ = &stage;
            table = stage.embedding_table();
        }
        if (part.head) last_ = &stage;
        for (model::Parameter parameter : stage.parameters()) {
            // The second copy's elements are the first's.
            parameter.counted = parameter.counted && program.chunks[chunk].copy == 0;
            parameters_.push_back(parameter);
        }
    }
    if (!device_.is_host() && spec.run.cuda_graphs)
        for (const auto& stage : stages_)
            graph_stages_.push_back(std::make_unique<model::GraphStage>(*stage, device_));
    if (spec.run.clock == "sleep")
        for (std::size_t chunk = 0; chunk < stages_.size(); ++chunk)
            paced_stages_.push_back(std::make_unique<pipeline::PacedStage>(
                *stages_[chunk], program.chunks[chunk].stage, predicted_durations(spec)));
    if (hooks.parameters) hooks.parameters(parameters_);
    list_run_stages(hooks);
    const std::int64_t micro_batches = spec.micro_batches();
    const auto take = [&](DType dtype, Shape shape) {
        return device::Mirror::take(arenas, device_, dtype, shape);
    };
    const Shape batch = {micro_batches, context_.shape.rows};
    if (first_) mirrors_.tokens = take(DType::i32, batch);
    if (last_) {
        mirrors_.targets = take(DType::i32, batch);
        mirrors_.loss_scale = take(DType::f32, {1});
        mirrors_.losses = take(DType::f64, {micro_batches});
    }
    mirrors_.first_samples = take(DType::u64, {micro_batches});
}

void RankModel::list_run_stages(const AssemblyHooks& hooks) {
    for (std::size_t chunk = 0; chunk < stages_.size(); ++chunk) {
        model::Stage* stage = stages_[chunk].get();
        if (!graph_stages_.empty()) stage = graph_stages_[chunk].get();
        if (!paced_stages_.empty()) stage = paced_stages_[chunk].get();
        for (const std::vector<StageHook>* around : {&hooks.stages, &hooks.boundaries})
            for (const StageHook& hook : *around)
                stage = hooked_stages_.emplace_back(hook(*stages_[chunk], *stage)).get();
        run_stages_.push_back(stage);
    }
}

void RankModel::begin_step(bool training, bool loss_wanted) {
    const TensorView losses = mirrors_.losses.host;
    if (losses.has_data()) std::fill_n(losses.as<double>(), losses.elements(), 0.0);
    for (const device::Mirror* mirror : {&mirrors_.tokens, &mirrors_.targets, &mirrors_.first_samples,
                                         &mirrors_.loss_scale, &mirrors_.losses})
        mirror->upload(device_);
    for (const auto& stage : stages_)
        stage->begin_step({mirrors_.tokens.device, mirrors_.targets.device, mirrors_.first_samples.device,
                           mirrors_.loss_scale.device, mirrors_.losses.device, training, loss_wanted});
}

void RankModel::download_losses() {
    mirrors_.losses.download(device_);
}

void RankModel::prepare_weights() const {
    for (const auto& stage : stages_) stage->prepare_weights();
}

}  // namespace escalier::train
