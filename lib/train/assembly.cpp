#include "train/assembly.h"

#include "schedule/generators.h"
#include "schedule/lower.h"
#include "schedule/prove.h"
#include "schedule/share_slots.h"
#include "train/rank_state.h"
#include "train/schedule_rules.h"

namespace escalier::train {

namespace {

parallel::Grid grid_of(const config::JobSpec& spec) {
    return {static_cast<int>(spec.parallel.tp), static_cast<int>(spec.parallel.pp),
            static_cast<int>(spec.parallel.dp)};
}

}  // namespace

namespace {

std::vector<schedule::Program> lowered(const schedule::Schedule& schedule, const config::JobSpec& spec) {
    std::vector<schedule::Program> programs = schedule::lower(schedule);
    for (schedule::Program& program : programs) schedule::share_slots(program, slot_groups(spec, program));
    return programs;
}

}  // namespace

Assembly::Assembly(const config::JobSpec& spec, comm::MpiEnv& env, comm::Communicator& job,
                   const AssemblyOptions& options)
    : backend_(make_backend(spec.run, env)),
      spec_(settled(spec, backend_, env)),
      schedule_(options.schedule ? *options.schedule : make_schedule(spec)),
      programs_(lowered(schedule_, spec)),
      groups_(job, grid_of(spec), static_cast<int>(spec.model.num_kv_heads), parallel::ends_of(schedule_),
              backend_.transport.get()),
      pool_(options.threads) {
    ESCALIER_CHECK(schedule_.pp == spec.parallel.pp && schedule_.micro_batches == spec.micro_batches() &&
                       schedule_.stages() == static_cast<int>(spec.pipeline.layers_per_stage.size()),
                   "the schedule is of other sizes than the job");
    schedule::prove(schedule_, programs_);
    if (options.validation) forward_programs_ = lowered(schedule::forward_only(schedule_), spec_);

    const auto pp_rank = static_cast<std::size_t>(groups_.place.pp_rank);
    const schedule::Program& program = programs_[pp_rank];
    const schedule::Program* forward = options.validation ? &forward_programs_[pp_rank] : nullptr;
    channels_ = std::make_unique<pipeline::Channels>(*backend_.transport, *groups_.pp, schedule_, programs_,
                                                     forward_programs_, options.synchronous_sends);

    const auto build = [&](device::Arenas& arenas) {
        saver_.reset();
        step_.reset();
        model_ = std::make_unique<RankModel>(spec_, groups_, backend_, pool_, program, forward, arenas);
        step_ = std::make_unique<TrainStep>(spec_, env, job, groups_, backend_, *model_, program, forward,
                                            *channels_, arenas);
        state_ = rank_state(*model_, step_->optimizer());
        saver_ = std::make_unique<checkpoint::Saver>(spec_.checkpoint, state_, groups_.place.dp_rank,
                                                     groups_.grid.dp, *backend_.device, arenas);
    };
    device::Arenas measured = device::Arenas::measuring();
    build(measured);
    env.agree([&] {
        arenas_ = std::make_unique<device::Arenas>(device::Arenas::allocated(
            measured, backend_.device->allocator(), backend_.device->host_allocator()));
    });
    build(*arenas_);
    model::initialize(model_->parameters(), static_cast<std::uint64_t>(spec_.run.seed),
                      spec_.model.num_layers, pool_, *backend_.device);
    model_->prepare_weights();
}

}  // namespace escalier::train
