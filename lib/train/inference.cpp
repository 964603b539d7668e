#include "train/inference.h"

#include <algorithm>
#include <string>

#include "checkpoint/weights.h"
#include "config/validate.h"
#include "core/check.h"
#include "core/error.h"
#include "data/sampler.h"
#include "device/arena.h"
#include "parallel/groups.h"
#include "pipeline/channels.h"
#include "pipeline/executor.h"
#include "schedule/generators.h"
#include "schedule/lower.h"
#include "train/backend.h"
#include "train/job_programs.h"
#include "train/rank_model.h"
#include "train/schedule_rules.h"

namespace escalier::train {

namespace {

// One micro-batch of one sample.
config::JobSpec inference_spec(const config::ModelConfig& model, const InferenceOptions& options) {
    config::JobSpec spec;
    spec.run.device = options.device;
    spec.model = model;
    spec.model.dropout = 0;
    spec.parallel = {options.tp, options.pp, 1};
    spec.train.seq_len = options.window;
    spec.train.dtype = "fp32";
    spec.train.global_batch = 1;
    spec.train.steps = 1;
    try {
        return config::resolve(spec, options.tp * options.pp, schedule_rules());
    } catch (const ConfigError& error) {
        throw ConfigError("the model does not go on tp " + std::to_string(options.tp) + " x pp " +
                          std::to_string(options.pp) + ": " + error.what());
    }
}

}  // namespace

struct Inference::State {
    comm::MpiEnv& env;
    comm::Communicator& job;
    Backend backend;
    config::JobSpec spec;
    schedule::Schedule schedule;
    std::vector<schedule::Program> programs;  // one per pipeline rank
    parallel::Groups groups;
    ComputePool pool;
    pipeline::Channels channels;
    pipeline::DeviceClock clock;
    std::unique_ptr<device::Arenas> arenas;
    std::unique_ptr<RankModel> model;
    std::unique_ptr<pipeline::Executor> executor;
    device::Mirror logits;  // f32 [tp, V/tp], on the last stage

    State(const config::JobSpec& asked, comm::MpiEnv& environment, comm::Communicator& ranks, int threads)
        : env(environment),
          job(ranks),
          backend(make_backend(asked.run, env)),
          spec(settled(asked, backend, env.world())),
          schedule(schedule::forward_only(make_schedule(spec))),
          programs(schedule::lower(schedule)),
          groups(job, grid_of(spec), static_cast<int>(spec.model.num_kv_heads), parallel::ends_of(schedule),
                 backend.transport.get()),
          pool(threads),
          channels(*backend.transport, *groups.pp, schedule, programs),
          clock(*backend.device) {
        device::Arenas measured = device::Arenas::measuring();
        build(measured);
        env.agree([&] {
            arenas = std::make_unique<device::Arenas>(device::Arenas::allocated(
                measured, backend.device->allocator(), backend.device->host_allocator()));
        });
        build(*arenas);
        const RankModel::StepMirrors& mirrors = model->step_mirrors();
        *mirrors.first_samples.host.as<std::uint64_t>() = 0;
        if (!model->last_stage()) return;
        const TensorView targets = mirrors.targets.host;
        std::fill_n(targets.as<std::int32_t>(), targets.elements(), data::no_target);
        *mirrors.loss_scale.host.as<float>() = 1;
    }

    void build(device::Arenas& in) {
        const schedule::Program& program = programs[static_cast<std::size_t>(groups.place.pp_rank)];
        executor.reset();
        model = std::make_unique<RankModel>(spec, groups, backend, pool, program, nullptr, in);
        const model::ModelShape& shape = model->context().shape;
        executor = std::make_unique<pipeline::Executor>(program, model->stages(), model->context().storage,
                                                        Shape{shape.rows, shape.hidden}, in.communication,
                                                        channels, clock, nullptr, nullptr, &env.activity());
        if (model->last_stage())
            logits =
                device::Mirror::take(in, *backend.device, DType::f32, {groups.grid.tp, shape.vocab_rows});
    }
};

Inference::Inference(const config::ModelConfig& model, const InferenceOptions& options, comm::MpiEnv& env,
                     comm::Communicator& job) {
    config::JobSpec spec;
    env.agree([&] { spec = inference_spec(model, options); });
    state_ = std::make_unique<State>(spec, env, job, options.threads);
}

Inference::~Inference() = default;

void Inference::load(const checkpoint::TensorSource& weights) {
    State& s = *state_;
    s.env.activity().begin(comm::Doing::loading_checkpoint);
    s.env.agree(
        [&] { checkpoint::load_weights(weights, s.model->parameters(), s.groups, *s.backend.device); });
    s.model->prepare_weights();
}

std::span<const float> Inference::next_logits(std::span<const std::int32_t> ids) {
    ESCALIER_CHECK(!ids.empty(), "logits of an empty text");
    State& s = *state_;
    const auto length = static_cast<std::size_t>(s.spec.train.seq_len);
    const std::size_t window = std::min(length, ids.size());
    if (s.model->first_stage()) {
        // Attention is causal, so what stands behind the window changes nothing before it.
        std::int32_t* tokens = s.model->step_mirrors().tokens.host.as<std::int32_t>();
        std::copy(ids.end() - static_cast<std::ptrdiff_t>(window), ids.end(), tokens);
        std::fill_n(tokens + window, length - window, 0);
    }
    s.model->begin_step(false, false);
    s.executor->run_step();
    if (model::StageModel* last = s.model->last_stage()) {
        const TensorView shard = last->head().row_logits(static_cast<std::int64_t>(window) - 1);
        s.groups.tp->all_gather(s.logits.device, shard, "logits over tp");
        s.logits.download(*s.backend.device);
    }
    s.backend.wait(s.env, "the device to finish the forward pass");
    s.backend.device->clear_marks();
    if (!s.model->last_stage()) return {};
    return {s.logits.host.as<float>(), static_cast<std::size_t>(s.spec.model.vocab_size)};
}

int Inference::logits_rank() const {
    const parallel::Grid& grid = state_->groups.grid;
    return grid.rank_of({0, 0, grid.pp - 1});
}

comm::Communicator& Inference::job() const {
    return state_->job;
}

comm::MpiEnv& Inference::env() const {
    return state_->env;
}

}  // namespace escalier::train
