#include "train/verify_run.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "optim/grad_norm.h"
#include "train/job_programs.h"
#include "train/verify_side.h"

namespace escalier::train {

namespace {

class HidingReader final : public data::SampleReader {
 public:
    HidingReader(const data::SampleReader& reader, const HiddenSamples& hidden)
        : reader_(reader), hidden_(hidden) {}
    std::int64_t seq_len() const override { return reader_.seq_len(); }
    void read(std::int64_t sample, std::int32_t* inputs, std::int32_t* targets) const override {
        reader_.read(sample, inputs, targets);
        if (targets && hidden_ && hidden_(sample)) std::fill_n(targets, seq_len(), data::no_target);
    }
    std::int64_t valid_targets(std::int64_t first, std::int64_t count) const override {
        return reader_.valid_targets(first, count);
    }

 private:
    const data::SampleReader& reader_;
    const HiddenSamples& hidden_;
};

GridFacts facts_of(const config::JobSpec& spec) {
    return {spec.parallel.tp,     spec.parallel.pp,       spec.parallel.dp,
            spec.micro_batches(), spec.train.micro_batch, spec.pipeline.layers_per_stage};
}

class TwoSides {
 public:
    TwoSides(const std::array<config::JobSpec, 2>& specs, comm::MpiEnv& env, const data::SampleReader& reader,
             const std::array<AssemblyOptions, 2>& options, const VerifyRun& run)
        : specs_(specs),
          env_(env),
          reader_(reader),
          hiding_(reader, run.hidden),
          run_(run),
          first_rank_(grid_of(specs[0]).ranks() + grid_of(specs[1]).ranks() <= env.world().size()
                          ? grid_of(specs[0]).ranks()
                          : 0),
          sides_{VerifySide(specs[0], env, 0, options[0], run.record),
                 VerifySide(specs[1], env, first_rank_, options[1], run.record)} {}

    StepEvidence start() {
        StepEvidence evidence = facts(0);
        SideTensors tensors(env_.world(), {sides_[0].weights(), sides_[1].weights()},
                            {sides_[0].place(), sides_[1].place()});
        const Rounding rounding(sides_[0].spec());
        evidence.tensors = SideComparison(tensors, rounding, true, reader_.seq_len(), {}).run();
        return evidence;
    }

    StepEvidence step(std::int64_t number) {
        const std::int64_t consumed = (number - 1) * specs_[0].train.global_batch;
        StepEvidence evidence = facts(number);
        std::array<StepResult, 2> results;
        // A step communicates: a rank that fails in it ends the run, for the others cannot get as far as to
        // agree.
        results[0] = sides_[0].step(hiding_, consumed, number);
        results[1] = sides_[1].step(reader_, consumed, number);
        share(results, evidence);

        SideTensors tensors(env_.world(), {sides_[0].after_step(), sides_[1].after_step()},
                            {sides_[0].place(), sides_[1].place()});
        const Rounding rounding(sides_[0].spec());
        evidence.loss_allowed = rounding.loss();
        evidence.norm_allowed = rounding.norm();
        evidence.tensors =
            SideComparison(tensors, rounding, run_.bits, reader_.seq_len(), rule(number, evidence.norm))
                .run();
        if (run_.record) read_tokens(consumed, evidence.tokens);
        // Rounding must not pile up, nor decide where AdamW turns tiny gradients into whole steps: the next
        // step is judged as this one. All that is handed over has just been compared.
        if (!run_.bits && !evidence.differs()) tensors.hand_over();
        return evidence;
    }

 private:
    StepEvidence facts(std::int64_t number) const {
        StepEvidence evidence;
        evidence.step = number;
        evidence.bits = run_.bits || number == 0;
        evidence.grids = {facts_of(specs_[0]), facts_of(specs_[1])};
        evidence.layers = specs_[0].model.num_layers;
        evidence.dropout = specs_[0].model.dropout;
        evidence.weight_decay = specs_[0].optimizer.weight_decay;
        evidence.clip_grad = specs_[0].optimizer.clip_grad;
        for (const VerifySide& side : sides_)
            evidence.recorded_graphs |= side.spec().run.device == "cuda" && side.spec().run.cuda_graphs;
        if (number > 0) evidence.learning_rate = sides_[0].learning_rate(number);
        return evidence;
    }

    // Loss and norm of each side's first rank, for all.
    void share(const std::array<StepResult, 2>& results, StepEvidence& evidence) {
        std::array<double, 4> numbers = {0, 0, 0, 0};
        const int rank = env_.world().rank();
        if (rank == 0) {
            numbers[0] = results[0].loss;
            numbers[1] = results[0].grad_norm;
        }
        if (rank == first_rank_) {
            numbers[2] = results[1].loss;
            numbers[3] = results[1].grad_norm;
        }
        env_.world().all_reduce_sum(TensorView(numbers.data(), DType::f64, {4}), "losses of both grids");
        evidence.loss = {numbers[0], numbers[2]};
        evidence.norm = {numbers[1], numbers[3]};
    }

    UpdateRule rule(std::int64_t number, const std::array<double, 2>& norm) const {
        const config::OptimizerConfig& optimizer = specs_[0].optimizer;
        UpdateRule out;
        out.adamw = optimizer.name == "adamw";
        out.lr = sides_[0].learning_rate(number);
        out.beta1 = optimizer.beta1;
        out.beta2 = optimizer.beta2;
        out.eps = optimizer.eps;
        for (std::size_t side = 0; side < 2; ++side)
            out.gradient_scale[side] = optim::clip_coefficient(norm[side], optimizer.clip_grad);
        out.step = number;
        return out;
    }

    void read_tokens(std::int64_t consumed, std::vector<std::int32_t>& tokens) const {
        const std::int64_t length = reader_.seq_len(), samples = specs_[0].train.global_batch;
        tokens.resize(static_cast<std::size_t>(samples * length));
        for (std::int64_t sample = 0; sample < samples; ++sample)
            reader_.read(consumed + sample, tokens.data() + sample * length, nullptr);
    }

    const std::array<config::JobSpec, 2>& specs_;
    comm::MpiEnv& env_;
    const data::SampleReader& reader_;
    HidingReader hiding_;
    const VerifyRun& run_;
    int first_rank_;  // of side 1
    std::array<VerifySide, 2> sides_;
};

}  // namespace

std::vector<StepEvidence> run_sides(const std::array<config::JobSpec, 2>& specs, comm::MpiEnv& env,
                                    const data::SampleReader& reader,
                                    const std::array<AssemblyOptions, 2>& options, const VerifyRun& run) {
    TwoSides sides(specs, env, reader, options, run);
    std::vector<StepEvidence> out = {sides.start()};
    for (std::int64_t step = 1; step <= run.steps && !out.back().differs(); ++step)
        out.push_back(sides.step(step));
    return out;
}

}  // namespace escalier::train
