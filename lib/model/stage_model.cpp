#include "model/stage_model.h"

#include <algorithm>

namespace escalier::model {

using kernels::Accumulate;
using schedule::ActionKind;

namespace {

Accumulate first_or_add(int done) {
    return done == 0 ? Accumulate::overwrite : Accumulate::add;
}

StageStorage::Boundary boundary_of(const StageIo& io) {
    return {io.input, io.output, io.output_gradient, io.input_gradient};
}

StageExtent extent_of(const parallel::StagePart& part, const RecomputePlan& recompute, bool split_backward) {
    return {part.layers(), part.embedding, part.head, split_backward, recompute};
}

}  // namespace

RankShared::RankShared(const ModelContext& c, device::Arenas& arenas, bool background_sums)
    : scratch(take_block_scratch(arenas.workspace, c)) {
    if (background_sums && c.tp.size() > 1) {
        const auto sum_of = [&](TensorView x) -> std::unique_ptr<comm::AllReduce> {
            const TensorView sum_scratch =
                arenas.workspace.take(c.storage, {c.tp.all_reduce_scratch_elements(x.elements())});
            return arenas.workspace.measuring() ? nullptr : c.tp.make_all_reduce(x, sum_scratch);
        };
        delta_sum = sum_of(scratch.delta);
        dnorm_sum = sum_of(scratch.dnorm);
    }
    if (c.gpt2()) return;
    rope_table = arenas.workspace.take(DType::f32, {c.shape.sequence, c.shape.head_size});
    if (arenas.workspace.measuring()) return;
    kernels::RopeScalingParameters scaling;
    if (c.config.rope.scaling) {
        const config::RopeScaling& s = *c.config.rope.scaling;
        scaling = {s.factor, s.low_freq_factor, s.high_freq_factor,
                   static_cast<double>(s.original_max_positions)};
    }
    c.ops.rope_table(c.op, rope_table, c.config.rope.theta, scaling);
}

StageModel::StageModel(const ModelContext& context, int stage, const parallel::StagePart& part,
                       const RecomputePlan& recompute, bool split_backward, const StageSlots& slots,
                       device::Arenas& arenas, const RankShared& shared, const Weight* tied_table)
    : context_(context),
      part_(part),
      extent_(extent_of(part, recompute, split_backward)),
      shared_(shared),
      registry_(context.config, context.shape, context.tp.size(), context.tp.rank(), stage, arenas,
                context.ops.prepared_weight_elements, context.storage),
      storage_(context_, extent_, slots.buffers, slots.shared_with ? &slots.shared_with->storage_ : nullptr,
               arenas.activations, arenas.workspace),
      plans_(4) {
    const std::int64_t rows = context.shape.rows;
    if (part.embedding) tokens_ = arenas.data.take(DType::i32, {rows});
    if (part.head) targets_ = arenas.data.take(DType::i32, {rows});
    if (context.config.dropout > 0) first_sample_ = arenas.data.take(DType::u64, {1});
    if (part.embedding) embedding_.emplace(context_, registry_.embedding());
    blocks_.reserve(static_cast<std::size_t>(extent_.layers));
    for (std::int64_t layer = part.first_layer; layer < part.end_layer; ++layer)
        blocks_.emplace_back(context_, registry_.block(layer), shared.scratch, shared.rope_table, layer);
    if (part.head) {
        const bool tied = context.config.tie_embeddings;
        if (tied && !tied_table) tied_table = embedding_table();
        head_.emplace(context_, registry_.head(tied ? tied_table : nullptr), arenas.workspace);
    }
    plan_forward();
    plan_backward(plan_of(ActionKind::B), true, true);
    plan_backward(plan_of(ActionKind::I), true, false);
    plan_backward(plan_of(ActionKind::W), false, true);
}

void StageModel::prepare_weights() const {
    for (const Block& block : blocks_) block.prepare_weights();
    if (head_) head_->prepare_weights();
}

void StageModel::begin_step(const StepInputs& inputs) {
    step_ = inputs;
    forwards_done_ = input_halves_done_ = weight_halves_done_ = 0;
}

// ---- plans ----

void StageModel::compute(Plan& plan, Function function, int index, const std::string& label,
                         SegmentPart part) {
    plan.segments.push_back({SegmentType::compute, label, part});
    plan.functions.push_back(function);
    plan.indices.push_back(index);
}

// A tensor group of one rank has nothing to exchange.
void StageModel::collective(Plan& plan, Function function, int index, const std::string& label,
                            SegmentPart part) {
    if (context_.tp.size() == 1) return;
    compute(plan, function, index, label, part);
    plan.segments.back().type = SegmentType::collective;
}

std::string StageModel::layer_name(int layer) const {
    return " of layer " + std::to_string(part_.first_layer + layer);
}

void StageModel::plan_forward() {
    Plan& plan = plan_of(ActionKind::F);
    if (embedding_) {
        compute(plan, &StageModel::embed, 0, "embedding", SegmentPart::embedding);
        collective(plan, &StageModel::reduce_embedding, 0, "sum of embedding over tp",
                   SegmentPart::embedding);
        compute(plan, &StageModel::finish_embedding, 0, "positions", SegmentPart::embedding);
    }
    for (int layer = 0; layer < extent_.layers; ++layer) {
        compute(plan, &StageModel::block_attention, layer, "attention" + layer_name(layer));
        collective(plan, &StageModel::reduce_delta, layer,
                   "sum of attention" + layer_name(layer) + " over tp");
        compute(plan, &StageModel::block_mlp, layer, "mlp" + layer_name(layer));
        collective(plan, &StageModel::reduce_delta, layer, "sum of mlp" + layer_name(layer) + " over tp");
        compute(plan, &StageModel::block_output, layer, "residual" + layer_name(layer));
    }
    if (!head_) return;
    compute(plan, &StageModel::head_norm, 0, "final norm", SegmentPart::head);
    for (int chunk = 0; chunk < head_->chunks(); ++chunk) {
        const std::string name = " of head chunk " + std::to_string(chunk);
        compute(plan, &StageModel::head_logits, chunk, "logits" + name, SegmentPart::head);
        collective(plan, &StageModel::head_exchange, chunk, "softmax statistics" + name + " over tp",
                   SegmentPart::head);
        compute(plan, &StageModel::head_finish, chunk, "loss and gradients" + name, SegmentPart::head);
    }
    collective(plan, &StageModel::head_reduce, 0, "sum of head gradient over tp", SegmentPart::head);
    compute(plan, &StageModel::head_backward, 0, "final norm backward", SegmentPart::head);
}

// Layers [first, last) once more, from the kept input of the group; what only the next layer would need is
// left out behind the last one.
void StageModel::plan_recompute(Plan& plan, int first, int last) {
    for (int layer = first; layer < last; ++layer) {
        compute(plan, &StageModel::recompute_block_attention, layer,
                "recompute attention" + layer_name(layer), SegmentPart::layer_again);
        collective(plan, &StageModel::reduce_delta, layer, "sum of recomputed attention" + layer_name(layer),
                   SegmentPart::layer_again);
        compute(plan, &StageModel::recompute_mlp_hidden, layer, "recompute mlp" + layer_name(layer),
                SegmentPart::layer_again);
        if (layer + 1 == last) return;
        compute(plan, &StageModel::recompute_mlp_output, layer, "recompute mlp output" + layer_name(layer),
                SegmentPart::layer_again);
        collective(plan, &StageModel::reduce_delta, layer, "sum of recomputed mlp" + layer_name(layer),
                   SegmentPart::layer_again);
        compute(plan, &StageModel::recompute_output, layer, "recompute residual" + layer_name(layer),
                SegmentPart::layer_again);
    }
}

void StageModel::plan_backward(Plan& plan, bool input_half, bool weight_half) {
    const int layers = static_cast<int>(extent_.layers);
    for (int layer = layers - 1; layer >= 0; --layer) {
        const RecomputePlan& recompute = extent_.recompute;
        if (input_half && recompute.kind == config::Recompute::full &&
            layer == recompute.last_of_group(layer, layers))
            plan_recompute(plan, static_cast<int>(layer / recompute.every * recompute.every), layer + 1);
        if (input_half && recompute.kind == config::Recompute::attention)
            compute(plan, &StageModel::recompute_attention_only, layer,
                    "recompute attention" + layer_name(layer), SegmentPart::layer_again);
        if (input_half) {
            compute(plan, &StageModel::backward_mlp, layer, "mlp backward" + layer_name(layer));
            collective(plan, &StageModel::reduce_dnorm, layer,
                       "sum of mlp gradient" + layer_name(layer) + " over tp");
            compute(plan, &StageModel::backward_attention, layer, "attention backward" + layer_name(layer));
            collective(plan, &StageModel::reduce_dnorm, layer,
                       "sum of attention gradient" + layer_name(layer) + " over tp");
            compute(plan, &StageModel::backward_input, layer, "norm backward" + layer_name(layer));
        }
        if (weight_half)
            compute(plan, &StageModel::weight_gradients, layer, "weight gradients" + layer_name(layer));
    }
    if (input_half && embedding_)
        compute(plan, &StageModel::backward_embedding, 0, "embedding backward", SegmentPart::embedding);
}

std::span<const Segment> StageModel::segments(ActionKind kind) const {
    return plan_of(kind).segments;
}

void StageModel::run(int segment, const StageIo& io) {
    if (segment == 0) begin_action(io);
    run_ops(segment, io);
    if (is_last(segment, io)) end_action(io);
}

void StageModel::run_ops(int segment, const StageIo& io) {
    const Plan& plan = plan_of(io.action.kind);
    const auto at = static_cast<std::size_t>(segment);
    label_ = plan.segments[at].label.c_str();
    (this->*plan.functions[at])(plan.indices[at], io);
}

comm::AllReduce* StageModel::background_sum(int segment, const StageIo& io) const {
    const Function function = plan_of(io.action.kind).functions[static_cast<std::size_t>(segment)];
    if (function == &StageModel::reduce_delta) return shared_.delta_sum.get();
    if (function == &StageModel::reduce_dnorm) return shared_.dnorm_sum.get();
    return nullptr;
}

bool StageModel::start(int segment, const StageIo& io) {
    comm::AllReduce* sum = background_sum(segment, io);
    if (sum) sum->start();
    return sum != nullptr;
}

void StageModel::finish(int segment, const StageIo& io) {
    background_sum(segment, io)
        ->wait(plan_of(io.action.kind).segments[static_cast<std::size_t>(segment)].label.c_str());
    if (is_last(segment, io)) end_action(io);
}

std::optional<ResidualPoint> StageModel::residual_after(int segment, const StageIo& io) const {
    const Plan& plan = plan_of(io.action.kind);
    const Function function = plan.functions[static_cast<std::size_t>(segment)];
    const int layer = plan.indices[static_cast<std::size_t>(segment)];
    const std::int64_t before = 2 * (part_.first_layer + layer);
    if (function == &StageModel::finish_embedding)
        return ResidualPoint{0, false, storage_.embedding_output(io.binding)};
    if (function == &StageModel::block_mlp)
        return ResidualPoint{before + 1, false, forward_state(layer, io).a.mid};
    if (function == &StageModel::block_output)
        return ResidualPoint{before + 2, false, forward_state(layer, io).output};
    if (function == &StageModel::head_backward && step_.training)
        return ResidualPoint{2 * part_.end_layer, true, storage_.head_gradient(io.binding)};
    if (function == &StageModel::backward_attention)
        return ResidualPoint{before + 1, true, backward_state(layer, io).g.mid};
    if (function == &StageModel::backward_input)
        return ResidualPoint{before, true, backward_state(layer, io).dinput};
    return std::nullopt;
}

std::optional<ResidualPoint> StageModel::residual_received(const StageIo& io) const {
    const ActionKind kind = io.action.kind;
    if (kind == ActionKind::F && io.input.has_data())
        return ResidualPoint{2 * part_.first_layer, false, io.input};
    if ((kind == ActionKind::B || kind == ActionKind::I) && io.output_gradient.has_data())
        return ResidualPoint{2 * part_.end_layer, true, io.output_gradient};
    return std::nullopt;
}

void StageModel::begin_action(const StageIo& io) {
    const auto take = [&](TensorView mine, TensorView all) {
        if (mine.has_data())
            context_.ops.copy(context_.op, mine, all.rows(io.action.micro_batch, 1).reshaped(mine.shape()));
    };
    take(first_sample_, step_.first_samples);
    if (io.action.kind == ActionKind::F) take(targets_, step_.targets);
    if (io.action.kind != ActionKind::W) take(tokens_, step_.tokens);
}

void StageModel::end_action(const StageIo& io) {
    const ActionKind kind = io.action.kind;
    if (kind == ActionKind::F && head_ && step_.loss_wanted)
        context_.ops.copy(context_.op, step_.losses.rows(io.action.micro_batch, 1), head_->loss_sum());
    if (kind == ActionKind::F) ++forwards_done_;
    if (kind == ActionKind::B || kind == ActionKind::I) ++input_halves_done_;
    if (kind == ActionKind::B || kind == ActionKind::W) ++weight_halves_done_;
}

// ---- what an action works on ----

BlockState StageModel::forward_state(int layer, const StageIo& io) const {
    BlockState state = storage_.forward_state(layer, io.binding, boundary_of(io));
    state.first_sample = first_sample_;
    return state;
}

BlockState StageModel::backward_state(int layer, const StageIo& io) const {
    BlockState state = storage_.backward_state(layer, io.binding, boundary_of(io));
    state.first_sample = first_sample_;
    return state;
}

// ---- F ----

void StageModel::embed(int, const StageIo& io) {
    embedding_->forward(storage_.embedding_output(io.binding), tokens_);
}

void StageModel::reduce_embedding(int, const StageIo& io) {
    context_.tp.all_reduce_sum(storage_.embedding_output(io.binding), label_);
}

void StageModel::finish_embedding(int, const StageIo& io) {
    embedding_->finish(storage_.embedding_output(io.binding), step_, first_sample_);
}

void StageModel::block_attention(int layer, const StageIo& io) {
    blocks_[static_cast<std::size_t>(layer)].forward_attention(forward_state(layer, io));
}

void StageModel::block_mlp(int layer, const StageIo& io) {
    const BlockState state = forward_state(layer, io);
    blocks_[static_cast<std::size_t>(layer)].forward_mlp_hidden(state, step_);
    blocks_[static_cast<std::size_t>(layer)].forward_mlp_output(state);
}

void StageModel::block_output(int layer, const StageIo& io) {
    blocks_[static_cast<std::size_t>(layer)].forward_output(forward_state(layer, io), step_);
}

void StageModel::reduce_delta(int, const StageIo&) {
    context_.tp.all_reduce_sum(shared_.scratch.delta, label_);
}

void StageModel::head_norm(int, const StageIo&) {
    head_->forward_norm(storage_.head_input());
}

void StageModel::head_logits(int chunk, const StageIo&) {
    if (step_.loss_wanted) head_->logits(chunk, targets_);
}

void StageModel::head_exchange(int chunk, const StageIo&) {
    if (step_.loss_wanted) head_->exchange(chunk, label_);
}

void StageModel::head_finish(int chunk, const StageIo&) {
    if (step_.loss_wanted) head_->finish_chunk(chunk, targets_, step_, first_or_add(forwards_done_));
}

void StageModel::head_reduce(int, const StageIo&) {
    if (step_.training) head_->reduce(label_);
}

void StageModel::head_backward(int, const StageIo& io) {
    if (step_.training)
        head_->backward_norm(storage_.head_gradient(io.binding), storage_.head_input(),
                             first_or_add(forwards_done_));
}

// ---- recompute ----

void StageModel::recompute_block_attention(int layer, const StageIo& io) {
    blocks_[static_cast<std::size_t>(layer)].forward_attention(backward_state(layer, io));
}

void StageModel::recompute_attention_only(int layer, const StageIo& io) {
    blocks_[static_cast<std::size_t>(layer)].recompute_attention(backward_state(layer, io));
}

void StageModel::recompute_mlp_hidden(int layer, const StageIo& io) {
    blocks_[static_cast<std::size_t>(layer)].forward_mlp_hidden(backward_state(layer, io), step_);
}

void StageModel::recompute_mlp_output(int layer, const StageIo& io) {
    blocks_[static_cast<std::size_t>(layer)].forward_mlp_output(backward_state(layer, io));
}

void StageModel::recompute_output(int layer, const StageIo& io) {
    blocks_[static_cast<std::size_t>(layer)].forward_output(backward_state(layer, io), step_);
}

// ---- I and W ----

void StageModel::backward_mlp(int layer, const StageIo& io) {
    blocks_[static_cast<std::size_t>(layer)].backward_mlp(backward_state(layer, io), step_);
}

void StageModel::reduce_dnorm(int, const StageIo&) {
    context_.tp.all_reduce_sum(shared_.scratch.dnorm, label_);
}

void StageModel::backward_attention(int layer, const StageIo& io) {
    blocks_[static_cast<std::size_t>(layer)].backward_attention(backward_state(layer, io), step_,
                                                                first_or_add(input_halves_done_));
}

void StageModel::backward_input(int layer, const StageIo& io) {
    blocks_[static_cast<std::size_t>(layer)].backward_input(backward_state(layer, io),
                                                            first_or_add(input_halves_done_));
}

void StageModel::weight_gradients(int layer, const StageIo& io) {
    const Block& block = blocks_[static_cast<std::size_t>(layer)];
    const BlockState state = storage_.weight_state(layer, io.binding, boundary_of(io));
    block.weight_gradients_mlp(state, step_, first_or_add(weight_halves_done_));
    block.weight_gradients_attention(state, step_, first_or_add(weight_halves_done_));
}

void StageModel::backward_embedding(int, const StageIo& io) {
    embedding_->backward(storage_.embedding_gradient(io.binding), tokens_, step_, first_sample_,
                         first_or_add(input_halves_done_));
}

}  // namespace escalier::model
