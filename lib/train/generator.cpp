#include "train/generator.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "checkpoint/weights.h"
#include "core/rng.h"
#include "data/sampler.h"
#include "schedule/generators.h"
#include "schedule/lower.h"
#include "train/assembly.h"
#include "train/schedule_rules.h"

namespace escalier::train {

namespace {

// One micro-batch of one sample on a 1x1x1 grid.
config::JobSpec inference_spec(const WeightDescription& weights) {
    config::JobSpec spec;
    spec.run.device = "cpu";
    spec.train.dtype = "fp32";
    spec.model = weights.model;
    spec.parallel.dp = 1;
    spec.train.seq_len = weights.seq_len;
    spec.train.global_batch = 1;
    spec.train.steps = 1;
    spec.train.recompute = {config::Recompute::none};
    spec.pipeline.layers_per_stage = {weights.model.num_layers};
    return spec;
}

schedule::Program forward_program(const config::JobSpec& spec) {
    return schedule::lower(schedule::forward_only(make_schedule(spec))).front();
}

}  // namespace

std::int32_t sample_token(const float* logits, std::int64_t vocabulary, const SamplingOptions& options,
                          std::int64_t position) {
    if (options.temperature == 0)
        return static_cast<std::int32_t>(std::max_element(logits, logits + vocabulary) - logits);
    std::vector<std::int32_t> order(static_cast<std::size_t>(vocabulary));
    std::iota(order.begin(), order.end(), 0);
    const auto more_probable = [&](std::int32_t a, std::int32_t b) {
        return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
    };
    if (options.top_k > 0 && options.top_k < vocabulary) {
        std::partial_sort(order.begin(), order.begin() + options.top_k, order.end(), more_probable);
        order.resize(static_cast<std::size_t>(options.top_k));
    }
    const float highest = *std::max_element(logits, logits + vocabulary);
    std::vector<double> cumulated(order.size());
    double sum = 0;
    for (std::size_t i = 0; i < order.size(); ++i)
        cumulated[i] = sum +=
            std::exp((static_cast<double>(logits[order[i]]) - highest) / options.temperature);
    const PhiloxBlock draw =
        philox(options.seed, stream_of("sampling"), static_cast<std::uint64_t>(position));
    const double threshold =
        static_cast<double>((std::uint64_t{draw[0]} << 32 | draw[1]) >> 11) * 0x1p-53 * sum;
    const auto at = std::upper_bound(cumulated.begin(), cumulated.end(), threshold) - cumulated.begin();
    return order[std::min(static_cast<std::size_t>(at), order.size() - 1)];
}

struct Generator::State {
    WeightDescription weights;
    config::JobSpec spec;
    Backend backend;
    parallel::Groups groups;
    ComputePool pool;
    schedule::Program program;
    device::Arenas arenas;
    RankModel model;
    std::unique_ptr<data::Tokenizer> tokenizer;

    State(const std::string& path, comm::MpiEnv& env, int threads)
        : weights(read_weight_description(path)),
          spec(inference_spec(weights)),
          backend(make_backend(spec.run, env)),
          groups(env.world(), {1, 1, 1}, static_cast<int>(spec.model.num_kv_heads)),
          pool(threads),
          program(forward_program(spec)),
          arenas(device::Arenas::allocated(measure(), backend.device->allocator(),
                                           backend.device->host_allocator())),
          model(spec, groups, backend, pool, program, nullptr, arenas),
          tokenizer(data::make_tokenizer(weights.tokenizer)) {
        checkpoint::load_weights(checkpoint::SafetensorsReader(path), model.parameters(), groups,
                                 *backend.device);
        model.prepare_weights();
        const RankModel::StepMirrors& mirrors = model.step_mirrors();
        const TensorView targets = mirrors.targets.host;
        std::fill_n(targets.as<std::int32_t>(), targets.elements(), data::no_target);
        *mirrors.first_samples.host.as<std::uint64_t>() = 0;
        *mirrors.loss_scale.host.as<float>() = 1;
    }

    device::Arenas measure() {
        device::Arenas measured = device::Arenas::measuring();
        RankModel counting(spec, groups, backend, pool, program, nullptr, measured);
        return measured;
    }
};

Generator::Generator(const std::string& weights, comm::MpiEnv& env, int threads)
    : state_(std::make_unique<State>(weights, env, threads)) {}

Generator::~Generator() = default;

const data::Tokenizer& Generator::tokenizer() const {
    return *state_->tokenizer;
}

std::int64_t Generator::vocabulary() const {
    return state_->spec.model.vocab_size;
}

const float* Generator::next_logits(const std::vector<std::int32_t>& ids) {
    ESCALIER_CHECK(!ids.empty(), "logits of an empty text");
    const std::int64_t window =
        std::min<std::int64_t>(state_->spec.train.seq_len, static_cast<std::int64_t>(ids.size()));
    // Attention is causal, so what stands behind the window changes nothing before it.
    std::int32_t* tokens = state_->model.step_mirrors().tokens.host.as<std::int32_t>();
    std::fill_n(tokens, state_->spec.train.seq_len, 0);
    std::copy(ids.end() - window, ids.end(), tokens);
    state_->model.begin_step(false);
    model::StageModel& stage = state_->model.stage(0);
    for (const schedule::Instruction& instruction : state_->program.instructions) {
        if (instruction.kind != schedule::InstructionKind::compute) continue;
        const model::StageIo io{instruction.action, instruction.binding, {}, {}, {}, {}};
        const auto segments = static_cast<int>(stage.segments(instruction.action.kind).size());
        for (int segment = 0; segment < segments; ++segment) stage.run(segment, io);
    }
    return stage.head().row_logits(window - 1).as<float>();
}

void Generator::generate(std::vector<std::int32_t>& ids, std::int64_t count, const SamplingOptions& options,
                         const std::function<void(std::int32_t)>& on_token) {
    for (std::int64_t i = 0; i < count; ++i) {
        const std::int32_t token =
            sample_token(next_logits(ids), vocabulary(), options, static_cast<std::int64_t>(ids.size()));
        if (token == state_->tokenizer->eod()) return;
        ids.push_back(token);
        on_token(token);
    }
}

}  // namespace escalier::train
