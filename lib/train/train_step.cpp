#include "train/train_step.h"

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

TrainStep::TrainStep(const config::JobSpec& spec, const RankSeat& seat, RankModel& model,
                     device::Arenas& arenas)
    : spec_(spec),
      activity_(seat.activity),
      wait_(seat.wait_for_device),
      job_(seat.job),
      device_(*seat.backend.device),
      groups_(seat.groups),
      model_(model),
      loader_(spec, seat.groups.place.dp_rank, model),
      reducer_(model.parameters(), stages_of(seat.program), *seat.groups.dp, model.context().ops,
               arenas.communication),
      completion_(model.parameters(), seat.groups, model.context().ops, arenas.communication),
      norm_(model.parameters(), model::count_global_entries(spec.model.num_layers), seat.groups,
            model.context().ops, device_, arenas),
      optimizer_(
          optim::make_optimizer(spec.optimizer, model.parameters(), model.context().ops, arenas.optimizer)),
      guard_(spec.train),
      clock_(device_),
      executor_(
          seat.program, model.stages(), model.context().storage, boundary_of(model), arenas.communication,
          seat.channels, clock_, [this](int chunk) { reducer_.start(model_.context().op, chunk); },
          [this] { reducer_.poll(model_.context().op); }, &seat.activity),
      losses_(arenas.host.take(DType::f64, {groups_.grid.dp, groups_.grid.pp})),
      nonfinite_(device::Mirror::take(arenas, device_, DType::f64, {1})) {
    if (seat.forward)
        forward_executor_ = std::make_unique<pipeline::Executor>(
            *seat.forward, model.stages(), model.context().storage, boundary_of(model), arenas.communication,
            seat.channels, clock_, nullptr, nullptr, &seat.activity);
}

double TrainStep::learning_rate(std::int64_t step_number) const {
    return optim::learning_rate(spec_.lr, spec_.train.steps, step_number);
}

double TrainStep::sum_losses(const char* label) {
    double* losses = losses_.as<double>();
    for (std::int64_t place = 0; place < losses_.elements(); ++place) losses[place] = 0;
    // At most one rank of the job fills each place, so the sum over ranks is exact.
    double& mine = losses[groups_.place.dp_rank * groups_.grid.pp + groups_.place.pp_rank];
    const TensorView own = model_.step_mirrors().losses.host;
    for (std::int64_t mb = 0; groups_.place.tp_rank == 0 && mb < own.elements(); ++mb)
        mine += own.as<double>()[mb];
    job_.all_reduce_sum(losses_, label);
    double sum = 0;
    for (std::int64_t place = 0; place < losses_.elements(); ++place) sum += losses[place];
    return sum;
}

void TrainStep::wait_for_device(const char* label) {
    wait_(label);
    optimizer_seconds_ = 0;
    if (optimizer_begin_ >= 0) {
        phases_.optimizer_start = device_.seconds(optimizer_begin_);
        phases_.optimizer = device_.seconds(optimizer_end_);
        optimizer_seconds_ = phases_.optimizer - phases_.optimizer_start;
    }
    optimizer_begin_ = optimizer_end_ = -1;
}

double TrainStep::seconds_between(int first_mark, int second_mark) {
    return device_.seconds(second_mark) - device_.seconds(first_mark);
}

StepResult TrainStep::run(const data::SampleReader& reader, std::int64_t consumed, std::int64_t step_number) {
    const OpContext& op = model_.context().op;
    StepResult result;
    activity_.begin(comm::Doing::loading_data);
    const double start = now_seconds();
    loader_.load(reader, consumed, true);
    result.data_wait = now_seconds() - start;
    const int loaded = device_.mark();
    executor_.run_step();
    const int computed = device_.mark();
    activity_.begin(comm::Doing::reducing_gradients);
    reducer_.finish(op);
    completion_.run(op);
    norm_.queue(op);
    model_.download_losses();
    const int reduced = device_.mark();
    wait_for_device("the device to finish the step");
    result.pipeline = seconds_between(loaded, computed);
    result.reduction = seconds_between(computed, reduced);
    executor_.times();
    if (traced_) reducer_.settle_times();
    phases_ = {start, device_.seconds(loaded), device_.seconds(computed), device_.seconds(reduced)};
    device_.clear_marks();

    const double summing = now_seconds();
    result.grad_norm = norm_.finish();
    result.loss = sum_losses("sum of losses") / static_cast<double>(loader_.valid_targets());
    phases_.summing = summing;
    phases_.summed = now_seconds();
    result.reduction += phases_.summed - summing;
    result.verdict = guard_.judge(result.loss, result.grad_norm);
    if (result.verdict == Verdict::update) {
        activity_.begin(comm::Doing::optimizer);
        optimizer_begin_ = device_.mark();
        optimizer_->step(op, learning_rate(step_number),
                         optim::clip_coefficient(result.grad_norm, spec_.optimizer.clip_grad), ++updates_);
        optimizer_end_ = device_.mark();
    }
    if (device_.is_host() || traced_) wait_for_device("the optimizer");
    activity_.begin(comm::Doing::reporting);
    result.optimizer = optimizer_seconds_;
    result.seconds = result.data_wait + result.pipeline + result.reduction + result.optimizer;
    return result;
}

void TrainStep::reserve_trace() {
    executor_.reserve_message_times(reducer_.reserve_times());
}

void TrainStep::trace(bool on) {
    traced_ = on;
    executor_.record_messages(on);
    reducer_.record_times(on ? &device_ : nullptr);
}

void TrainStep::restore(std::int64_t updates, const GuardState& guard) {
    updates_ = updates;
    guard_.restore(guard);
}

double TrainStep::count_nonfinite_weights() {
    kernels::Accumulate accumulate = kernels::Accumulate::overwrite;
    for (const model::Parameter& parameter : model_.parameters()) {
        model_.context().ops.count_nonfinite(model_.context().op, nonfinite_.device, parameter.weight,
                                             accumulate);
        accumulate = kernels::Accumulate::add;
    }
    nonfinite_.download(device_);
    wait_for_device("the device to look at the weights");
    return *nonfinite_.host.as<double>();
}

double TrainStep::validate(const data::SampleReader& reader, std::int64_t consumed, std::int64_t& targets) {
    activity_.begin(comm::Doing::validation);
    loader_.load(reader, consumed, false);
    forward_executor_->run_step();
    activity_.begin(comm::Doing::validation);
    model_.download_losses();
    wait_for_device("the device to finish the validation batch");
    device_.clear_marks();
    targets = loader_.valid_targets();
    return sum_losses("sum of validation losses");
}

}  // namespace escalier::train
