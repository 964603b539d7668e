#include "train/train_step.h"

#include <cmath>

#include "core/clock.h"
#include "optim/lr_schedule.h"

namespace escalier::train {

namespace {

std::vector<int> stages_of(const schedule::Program& program) {
    std::vector<int> stages;
    for (const schedule::StageBuffers& buffers : program.chunks) stages.push_back(buffers.stage);
    return stages;
}

Shape boundary_of(const RankModel& model) {
    return {model.context().shape.rows, model.context().shape.hidden};
}

}  // namespace

TrainStep::TrainStep(const config::JobSpec& spec, comm::Communicator& job, const parallel::Groups& groups,
                     RankModel& model, const schedule::Program& program, const schedule::Program* forward,
                     pipeline::Channels& channels, device::Arenas& arenas)
    : spec_(spec),
      job_(job),
      groups_(groups),
      model_(model),
      loader_(spec, groups.place.dp_rank, model),
      reducer_(model.parameters(), stages_of(program), *groups.dp, model.context().ops, arenas.communication),
      completion_(model.parameters(), groups, model.context().ops, arenas.communication),
      norm_(model.parameters(), model::count_global_entries(spec.model.num_layers), groups,
            model.context().ops, arenas.communication),
      optimizer_(
          optim::make_optimizer(spec.optimizer, model.parameters(), model.context().ops, arenas.optimizer)),
      executor_(
          program, model.stages(), boundary_of(model), arenas.communication, channels, clock_,
          [this](int chunk) { reducer_.start(model_.context().op, chunk); },
          [this] { reducer_.poll(model_.context().op); }),
      losses_(arenas.data.take(DType::f64, {groups.grid.dp, groups.grid.pp})) {
    if (forward)
        forward_executor_ =
            std::make_unique<pipeline::Executor>(*forward, model.stages(), boundary_of(model),
                                                 arenas.communication, channels, clock_, nullptr, nullptr);
}

double TrainStep::learning_rate(std::int64_t step_number) const {
    return optim::learning_rate(spec_.lr, spec_.train.steps, step_number);
}

double TrainStep::sum_losses(const char* label) {
    double* losses = losses_.as<double>();
    for (std::int64_t place = 0; place < losses_.elements(); ++place) losses[place] = 0;
    // At most one rank of the job fills each place, so the sum over ranks is exact.
    double& mine = losses[groups_.place.dp_rank * groups_.grid.pp + groups_.place.pp_rank];
    if (model_.last_stage() && groups_.place.tp_rank == 0)
        for (double loss : model_.last_stage()->micro_batch_losses()) mine += loss;
    job_.all_reduce_sum(losses_, label);
    double sum = 0;
    for (std::int64_t place = 0; place < losses_.elements(); ++place) sum += losses[place];
    return sum;
}

StepResult TrainStep::run(const data::SampleReader& reader, std::int64_t consumed, std::int64_t step_number) {
    const OpContext& op = model_.context().op;
    const double start = now_seconds();
    loader_.load(reader, consumed, true);
    const double loaded = now_seconds();
    executor_.run_step();
    const double computed = now_seconds();
    reducer_.finish(op);
    completion_.run(op);
    StepResult result;
    result.grad_norm = norm_.compute(op);
    result.loss = sum_losses("sum of losses") / static_cast<double>(loader_.valid_targets());
    const double reduced = now_seconds();
    if (std::isfinite(result.loss) && std::isfinite(result.grad_norm)) {
        optimizer_->step(op, learning_rate(step_number),
                         optim::clip_coefficient(result.grad_norm, spec_.optimizer.clip_grad), step_number);
        model_.prepare_weights();
    }
    const double end = now_seconds();
    result.data_wait = loaded - start;
    result.pipeline = computed - loaded;
    result.reduction = reduced - computed;
    result.optimizer = end - reduced;
    result.seconds = end - start;
    return result;
}

double TrainStep::validate(const data::SampleReader& reader, std::int64_t consumed, std::int64_t& targets) {
    loader_.load(reader, consumed, false);
    forward_executor_->run_step();
    targets = loader_.valid_targets();
    return sum_losses("sum of validation losses");
}

}  // namespace escalier::train
