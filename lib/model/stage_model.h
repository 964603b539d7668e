// One pipeline stage of the real model: embedding (first stage), blocks, loss head (last stage).
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "device/arena.h"
#include "model/block.h"
#include "model/embedding.h"
#include "model/loss_head.h"
#include "model/stage.h"
#include "model/stage_storage.h"
#include "parallel/partition.h"

namespace escalier::model {

// What all stages of a rank share; stages whose actions run interleaved (overlapped pairs) need one each.
struct RankShared {
    // background_sums: sums over the tensor group can run behind another stage's compute. Collective over the
    // tensor group then.
    RankShared(const ModelContext& context, device::Arenas& arenas, bool background_sums = false);

    BlockScratch scratch;
    TensorView rope_table;                                  // llama only
    std::unique_ptr<comm::AllReduce> delta_sum, dnorm_sum;  // of `scratch`; null: they run at once
};

class StageModel;

// The slots of a stage: how many, and whose they are besides (null: its own alone).
struct StageSlots {
    schedule::StageBuffers buffers;
    const StageModel* shared_with = nullptr;
};

// What a segment leaves in the residual stream, at one of its points: 0 lies behind the embedding, 2k + 1
// behind the attention of layer k of the model, 2k + 2 behind layer k.
struct ResidualPoint {
    std::int64_t point;
    bool gradient;     // of the loss by the stream there
    TensorView value;  // [R,C]
};

class StageModel final : public Stage {
 public:
    // In measuring arenas the stage only counts and must not run. tied_table: the embedding's weight where it
    // lives on this rank and the head is tied to it, else null.
    StageModel(const ModelContext& context, int stage, const parallel::StagePart& part,
               const RecomputePlan& recompute, bool split_backward, const StageSlots& slots,
               device::Arenas& arenas, const RankShared& shared, const Weight* tied_table);

    const ParameterList& parameters() const { return registry_.parameters(); }
    const Weight* embedding_table() const { return embedding_ ? &embedding_->table() : nullptr; }

    // After weights were set: brings their prepared forms up to date. The optimizer does so itself.
    void prepare_weights() const;
    void begin_step(const StepInputs& inputs);
    LossHead& head() { return *head_; }

    // run() in pieces, for who records ops: what differs between micro-batches happens in begin_action() and
    // end_action(), once each; run_ops() queues the same ops for equal bindings, boundary buffers and
    // overwrites().
    void begin_action(const StageIo& io);
    void run_ops(int segment, const StageIo& io);
    void end_action(const StageIo& io);
    // Which accumulators the next action of each kind overwrites, whether it trains and whether it has
    // losses.
    std::array<bool, 5> overwrites() const {
        return {forwards_done_ == 0, input_halves_done_ == 0, weight_halves_done_ == 0, step_.training,
                step_.loss_wanted};
    }

    std::span<const Segment> segments(schedule::ActionKind kind) const override;
    void run(int segment, const StageIo& io) override;
    bool start(int segment, const StageIo& io) override;
    void finish(int segment, const StageIo& io) override;

    // What `segment`, the last one that ran, has left in the residual stream; none for most.
    std::optional<ResidualPoint> residual_after(int segment, const StageIo& io) const;
    // What an action finds in its boundary tensors: what another stage has left there; none at the ends.
    std::optional<ResidualPoint> residual_received(const StageIo& io) const;

 private:
    // A segment's code: a member function and what it works on (a layer within the stage, a chunk of the
    // head).
    using Function = void (StageModel::*)(int index, const StageIo& io);
    struct Plan {
        std::vector<Segment> segments;
        std::vector<Function> functions;
        std::vector<int> indices;
    };

    void plan_forward();
    void plan_recompute(Plan& plan, int first, int last);
    void plan_backward(Plan& plan, bool input_half, bool weight_half);
    void compute(Plan& plan, Function function, int index, const std::string& label,
                 SegmentPart part = SegmentPart::layer);
    void collective(Plan& plan, Function function, int index, const std::string& label,
                    SegmentPart part = SegmentPart::layer);
    Plan& plan_of(schedule::ActionKind kind) { return plans_[static_cast<std::size_t>(kind)]; }
    const Plan& plan_of(schedule::ActionKind kind) const { return plans_[static_cast<std::size_t>(kind)]; }
    std::string layer_name(int layer) const;
    comm::AllReduce* background_sum(int segment, const StageIo& io) const;
    bool is_last(int segment, const StageIo& io) const {
        return static_cast<std::size_t>(segment) + 1 == plan_of(io.action.kind).segments.size();
    }

    BlockState forward_state(int layer, const StageIo& io) const;
    BlockState backward_state(int layer, const StageIo& io) const;

    void embed(int, const StageIo& io);
    void reduce_embedding(int, const StageIo& io);
    void finish_embedding(int, const StageIo& io);
    void block_attention(int layer, const StageIo& io);
    void block_mlp(int layer, const StageIo& io);
    void block_output(int layer, const StageIo& io);
    void reduce_delta(int layer, const StageIo& io);
    void head_norm(int, const StageIo& io);
    void head_logits(int chunk, const StageIo& io);
    void head_exchange(int chunk, const StageIo& io);
    void head_finish(int chunk, const StageIo& io);
    void head_reduce(int, const StageIo& io);
    void head_backward(int, const StageIo& io);
    void recompute_block_attention(int layer, const StageIo& io);
    void recompute_attention_only(int layer, const StageIo& io);
    void recompute_mlp_hidden(int layer, const StageIo& io);
    void recompute_mlp_output(int layer, const StageIo& io);
    void recompute_output(int layer, const StageIo& io);
    void backward_mlp(int layer, const StageIo& io);
    void reduce_dnorm(int layer, const StageIo& io);
    void backward_attention(int layer, const StageIo& io);
    void backward_input(int layer, const StageIo& io);
    void weight_gradients(int layer, const StageIo& io);
    void backward_embedding(int, const StageIo& io);

    ModelContext context_;
    parallel::StagePart part_;
    StageExtent extent_;
    const RankShared& shared_;
    Registry registry_;
    StageStorage storage_;
    std::optional<Embedding> embedding_;
    std::vector<Block> blocks_;
    std::optional<LossHead> head_;

    std::vector<Plan> plans_;
    StepInputs step_;
    // What of the step concerns the micro-batch of the action under way, always in the same place: so an
    // action's ops are the same for every micro-batch.
    TensorView tokens_, targets_;  // i32 [R]; without data on stages that read none
    TensorView first_sample_;      // u64 [1]; without data without dropout
    const char* label_ = "";       // of the segment that runs
    // How many micro-batches of this step have gone through F, the input half and the weight half: the first
    // one overwrites its accumulators.
    int forwards_done_ = 0, input_halves_done_ = 0, weight_halves_done_ = 0;
};

}  // namespace escalier::model
