#include "train/measure_profile.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <utility>
#include <vector>

#include "config/validate.h"
#include "core/clock.h"
#include "train/measure_exchanges.h"
#include "train/measure_parts.h"
#include "train/random_tokens.h"
#include "train/schedule_rules.h"

namespace escalier::train {

namespace {

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

std::string processor_name(const Backend& backend) {
    if (!backend.device->is_host()) return backend.device->description();
    std::ifstream info("/proc/cpuinfo");
    for (std::string line; std::getline(info, line);)
        if (line.rfind("model name", 0) == 0) return line.substr(std::min(line.size(), line.find(": ") + 2));
    return backend.device->description();
}

// A one-stage job with the layers of one pipeline rank. Of what is recomputed a few micro-batches tell
// enough.
config::JobSpec probe_spec(const config::JobSpec& spec, config::Recompute recompute, bool split) {
    const std::int64_t most_micro_batches = recompute == config::Recompute::none ? 4 : 2;
    config::JobSpec probe = spec;
    probe.parallel = {spec.parallel.tp, 1, 1};
    const std::int64_t pp = spec.parallel.pp, layers = spec.model.num_layers;
    probe.model.num_layers = (layers + pp - 1) / pp;
    probe.pipeline = {};
    probe.pipeline.schedule = split ? "zb-h1" : "1f1b";
    probe.train.recompute = {recompute};
    probe.train.global_batch = probe.train.micro_batch *
                               std::min(most_micro_batches, std::max<std::int64_t>(2, spec.micro_batches()));
    probe.checkpoint = {};
    probe.checkpoint.last = false;
    probe.eval = {};
    return config::resolve(probe, spec.parallel.tp, schedule_rules());
}

class Measurement {
 public:
    Measurement(const config::JobSpec& spec, comm::MpiEnv& env, const MeasureOptions& options)
        : spec_(spec),
          env_(env),
          options_(options),
          group_(
              env.world().split(env.world().rank() / static_cast<int>(spec.parallel.tp), env.world().rank())),
          peers_(env.world().split(env.world().rank() % static_cast<int>(spec.parallel.tp),
                                   env.world().rank())) {}

    config::Profile run() {
        measure(config::Recompute::none, true);
        measure(config::Recompute::none, false);
        measure(config::Recompute::attention, false);
        measure(config::Recompute::full, false);
        profile_.times.step = small_sums();
        average_over_ranks();
        return profile_;
    }

 private:
    std::unique_ptr<Assembly> assemble(const config::JobSpec& probe) {
        auto assembly = std::make_unique<Assembly>(probe, env_, *group_, AssemblyOptions{options_.threads});
        const RandomTokens tokens(probe.train.seq_len, probe.model.vocab_size);
        assembly->step().run(tokens, 0, 1);
        return assembly;
    }

    void measure(config::Recompute recompute, bool split) {
        const config::JobSpec probe = probe_spec(spec_, recompute, split);
        const std::unique_ptr<Assembly> assembly = assemble(probe);
        std::vector<PartSample> samples;
        for (int i = 0; i <= options_.repeats; ++i) {
            env_.world().barrier("the start of a measurement");
            const PartSample sample = measure_parts(*assembly, env_);
            if (i > 0) samples.push_back(sample);
        }
        const auto middle = [&](auto&& value) {
            std::vector<double> values;
            for (const PartSample& sample : samples) values.push_back(value(sample));
            return median(values);
        };
        config::ModelTimes& t = profile_.times;
        if (recompute == config::Recompute::attention) {
            t.attention_again = middle([](const PartSample& s) { return s.again; });
        } else if (recompute == config::Recompute::full) {
            t.layer_again = middle([](const PartSample& s) { return s.again; });
            t.layer_again_exchange = middle([](const PartSample& s) { return s.again_exchange; });
        } else {
            for (const auto part : {&PartSample::embedding, &PartSample::layer, &PartSample::head}) {
                config::PartTimes& to = part == &PartSample::embedding ? t.embedding
                                        : part == &PartSample::layer   ? t.layer
                                                                       : t.head;
                take(
                    to,
                    [&](auto member) { return middle([&](const PartSample& s) { return s.*part.*member; }); },
                    split);
            }
            if (!split) measure_rest(*assembly);
            if (!split) describe(*assembly);
        }
    }

    // What a sample has of a part: F either way, B where the backward pass is one action, else I and W.
    template <class Middle>
    static void take(config::PartTimes& to, const Middle& middle, bool split) {
        if (split) {
            to.input_gradient = middle(&config::PartTimes::input_gradient);
            to.weight_gradient = middle(&config::PartTimes::weight_gradient);
            return;
        }
        to.forward = middle(&config::PartTimes::forward);
        to.backward = middle(&config::PartTimes::backward);
        to.forward_exchange = middle(&config::PartTimes::forward_exchange);
        to.backward_exchange = middle(&config::PartTimes::backward_exchange);
    }

    void measure_rest(Assembly& assembly) {
        const config::JobSpec& probe = assembly.spec();
        const RandomTokens tokens(probe.train.seq_len, probe.model.vocab_size);
        double elements = 0, tied = 0;
        for (const kernels::OptimizerTensor& tensor : assembly.step().optimizer().tensors())
            elements += static_cast<double>(tensor.weight.elements());
        if (probe.model.tie_embeddings)
            tied = static_cast<double>(assembly.model().parameters().front().weight.elements());
        std::vector<double> data, reduction, optimizer;
        for (int i = 0; i <= options_.repeats; ++i) {
            env_.world().barrier("the start of a measurement");
            const StepResult result = assembly.step().run(tokens, 0, i + 2);
            if (i == 0) continue;
            data.push_back(result.data_wait);
            reduction.push_back(result.reduction);
            optimizer.push_back(result.optimizer);
        }
        config::ModelTimes& t = profile_.times;
        t.data = median(data) / static_cast<double>(probe.micro_batches());
        t.optimizer = median(optimizer) / elements;
        // The norm reads a gradient once; adding a tied pair reads two and writes one.
        constexpr double passes_of_tie = 3;
        t.norm = median(reduction) / (elements + passes_of_tie * tied);
        t.local_tie = passes_of_tie * t.norm;
        const auto peers = assembly.backend().transport->on_device(env_.world().split(
            env_.world().rank() % static_cast<int>(spec_.parallel.tp), env_.world().rank()));
        const ExchangeTimes exchange = measure_exchanges(assembly, env_, *peers_, *peers, options_.repeats);
        t.message = exchange.message;
        t.reduction = exchange.reduction;
        t.remote_tie = exchange.remote_tie;
    }

    void describe(const Assembly& assembly) {
        const config::JobSpec& probe = assembly.spec();
        const comm::RankPlace& place = env_.place();
        profile_.machine = {processor_name(assembly.backend()), place.node_cores, env_.world().size(),
                            options_.threads};
        profile_.sizes = {probe.parallel.tp, probe.train.micro_batch, probe.train.seq_len, probe.train.dtype};
        profile_.model = spec_.model;
        profile_.model.preset.clear();
    }

    // Losses and norms travel between all ranks twice a step.
    double small_sums() {
        std::vector<double> seconds;
        double value = 0;
        for (int i = 0; i <= options_.repeats; ++i) {
            env_.world().barrier("the start of a measurement");
            const double start = now_seconds();
            for (int sum = 0; sum < 2; ++sum)
                env_.world().all_reduce_sum(TensorView(&value, DType::f64, {1}), "a measured small sum");
            if (i > 0) seconds.push_back(now_seconds() - start);
        }
        return median(seconds);
    }

    void average_over_ranks() {
        const config::FieldTable table = config::table_of(profile_.times);
        std::vector<double> values;
        for (const config::Field& field : table.all())
            values.push_back(*std::get<config::RealField>(field.value).at);
        env_.world().all_reduce_sum(
            TensorView(values.data(), DType::f64, {static_cast<std::int64_t>(values.size())}),
            "measured times");
        for (std::size_t i = 0; i < values.size(); ++i)
            *std::get<config::RealField>(table.all()[i].value).at = values[i] / env_.world().size();
    }

    const config::JobSpec& spec_;
    comm::MpiEnv& env_;
    const MeasureOptions options_;
    std::unique_ptr<comm::Communicator> group_;  // this rank's tensor group
    std::unique_ptr<comm::Communicator> peers_;  // ranks of the same tensor place
    config::Profile profile_;
};

}  // namespace

config::Profile measure_profile(const config::JobSpec& spec, comm::MpiEnv& env,
                                const MeasureOptions& options) {
    env.agree([&] {
        if (env.world().size() % spec.parallel.tp != 0)
            throw ConfigError(
                "plan --measure runs whole tensor groups: parallel.tp is " +
                std::to_string(spec.parallel.tp) + ", found " + std::to_string(env.world().size()) +
                (env.world().size() == 1 ? " process" : " processes") + "; start it with mpirun -n " +
                std::to_string(spec.parallel.tp) + " or a multiple");
    });
    return Measurement(spec, env, options).run();
}

}  // namespace escalier::train
