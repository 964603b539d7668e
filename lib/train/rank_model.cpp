#include "train/rank_model.h"

#include <algorithm>

namespace escalier::train {

namespace {

OpContext take_op_context(const config::JobSpec& spec, const model::ModelShape& shape, const Backend& backend,
                          ComputePool& pool, device::Arena& workspace) {
    const std::int64_t columns =
        std::max({shape.hidden, shape.qkv_width(), 2 * shape.ffn, shape.vocab_rows, shape.attention_width()});
    const std::size_t bytes = backend.scratch_bytes_per_thread(columns, spec.train.seq_len, shape.head_size);
    const auto all = static_cast<std::int64_t>(bytes) * pool.threads();
    return OpContext(pool, workspace.take(DType::u8, {all}).data(), bytes);
}

model::ModelContext make_context(const config::JobSpec& spec, const parallel::Groups& groups,
                                 const Backend& backend, ComputePool& pool, device::Arenas& arenas) {
    const model::ModelShape shape = model::shape_of(spec.model, spec.train.micro_batch, spec.train.seq_len,
                                                    groups.grid.tp, groups.place.tp_rank);
    return {backend.ops, take_op_context(spec, shape, backend, pool, arenas.workspace),
            *groups.tp,  spec.model,
            shape,       static_cast<std::uint64_t>(spec.run.seed)};
}

schedule::StageBuffers enough_for_both(schedule::StageBuffers a, const schedule::Program* forward,
                                       std::size_t chunk) {
    if (!forward) return a;
    const schedule::StageBuffers& b = forward->chunks[chunk];
    a.forward_slots = std::max(a.forward_slots, b.forward_slots);
    a.linear_input_slots = std::max(a.linear_input_slots, b.linear_input_slots);
    return a;
}

bool has_split_backward(const schedule::Program& program) {
    return std::any_of(program.instructions.begin(), program.instructions.end(), [](const auto& instruction) {
        return instruction.kind == schedule::InstructionKind::compute &&
               instruction.action.kind == schedule::ActionKind::I;
    });
}

bool has_overlaps(const schedule::Program& program) {
    return std::any_of(program.instructions.begin(), program.instructions.end(),
                       [](const auto& instruction) { return instruction.action.overlaps_next; });
}

}  // namespace

RankModel::RankModel(const config::JobSpec& spec, const parallel::Groups& groups, const Backend& backend,
                     ComputePool& pool, const schedule::Program& program, const schedule::Program* forward,
                     device::Arenas& arenas)
    : context_(make_context(spec, groups, backend, pool, arenas)) {
    // Chunks whose actions run interleaved must not share scratch.
    const bool overlaps = has_overlaps(program);
    for (std::size_t i = 0; i < (overlaps ? program.chunks.size() : 1); ++i)
        shared_.push_back(std::make_unique<model::RankShared>(context_, arenas, overlaps));
    const model::Weight* table = nullptr;
    for (std::size_t chunk = 0; chunk < program.chunks.size(); ++chunk) {
        const int stage_index = program.chunks[chunk].stage;
        const parallel::StagePart part = parallel::part_of_stage(spec.pipeline.layers_per_stage, stage_index);
        const model::RecomputePlan recompute{spec.train.recompute[static_cast<std::size_t>(stage_index)],
                                             spec.train.recompute_every};
        stages_.push_back(std::make_unique<model::StageModel>(
            context_, stage_index, part, recompute, has_split_backward(program),
            enough_for_both(program.chunks[chunk], forward, chunk), static_cast<int>(spec.micro_batches()),
            arenas, *shared_[overlaps ? chunk : 0], table));
        model::StageModel& stage = *stages_.back();
        if (part.embedding) {
            first_ = &stage;
            table = stage.embedding_table();
        }
        if (part.head) last_ = &stage;
        parameters_.insert(parameters_.end(), stage.parameters().begin(), stage.parameters().end());
    }
    const Shape batch = {spec.micro_batches(), context_.shape.rows};
    if (first_) tokens_ = arenas.data.take(DType::i32, batch);
    if (last_) targets_ = arenas.data.take(DType::i32, batch);
}

std::vector<model::Stage*> RankModel::stages() {
    std::vector<model::Stage*> out;
    for (const auto& stage : stages_) out.push_back(stage.get());
    return out;
}

void RankModel::begin_step(const model::StepInputs& inputs) {
    for (const auto& stage : stages_) stage->begin_step(inputs);
}

void RankModel::prepare_weights() const {
    for (const auto& stage : stages_) stage->prepare_weights();
}

}  // namespace escalier::train
