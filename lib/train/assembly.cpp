#include "train/assembly.h"

#include <utility>

namespace escalier::train {

Assembly::Assembly(const config::JobSpec& spec, comm::MpiEnv& env, comm::Communicator& job,
                   const AssemblyOptions& options)
    : Assembly(spec, env, job, options, make_backend(spec.run, env)) {}

Assembly::Assembly(const config::JobSpec& spec, comm::MpiEnv& env, comm::Communicator& job,
                   const AssemblyOptions& options, Backend backend)
    : backend_(std::move(backend)),
      spec_(settled(spec, backend_, job)),
      programs_(spec_, options.schedule, options.validation),
      groups_(job, grid_of(spec), static_cast<int>(spec.model.num_kv_heads),
              parallel::ends_of(programs_.schedule), backend_.transport.get()),
      pool_(options.threads) {
    if (options.hooks.groups) options.hooks.groups(groups_);
    channels_ = std::make_unique<pipeline::Channels>(*backend_.transport, *groups_.pp, programs_.schedule,
                                                     programs_.training, programs_.validation,
                                                     options.synchronous_sends);
    const int pp_rank = groups_.place.pp_rank;
    const RankSeat seat{backend_,
                        groups_,
                        job,
                        pool_,
                        programs_.program(pp_rank),
                        programs_.forward(pp_rank),
                        *channels_,
                        env.activity(),
                        [this, &env](const char* label) { backend_.wait(env, label); },
                        options.hooks};
    device::Arenas measured = device::Arenas::measuring();
    parts_ = std::make_unique<RankParts>(spec_, seat, measured);
    comm::agree(job, [&] {
        arenas_ = std::make_unique<device::Arenas>(device::Arenas::allocated(
            measured, backend_.device->allocator(), backend_.device->host_allocator()));
    });
    parts_.reset();
    parts_ = std::make_unique<RankParts>(spec_, seat, *arenas_);
    model::initialize(parts_->model.parameters(), static_cast<std::uint64_t>(spec_.run.seed),
                      spec_.model.num_layers, pool_, *backend_.device);
    parts_->model.prepare_weights();
}

}  // namespace escalier::train
