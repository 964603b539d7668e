#include "check_command.h"

#include <cstdio>
#include <iostream>
#include <memory>

#include "config/fields.h"
#include "config/layout.h"
#include "config/model_facts.h"
#include "config/validate.h"
#include "core/text.h"
#include "number_options.h"
#include "schedule/simulate.h"
#include "train/schedule_rules.h"
#include "train/stage_costs.h"

namespace escalier::apps {

namespace {

struct Arguments {
    std::string job;
    std::int64_t ranks = 0;
    std::vector<std::string> overrides;
};

std::string percent(double share) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f %%", 100.0 * share);
    return text;
}

std::string padded(const std::string& text, std::size_t width) {
    return text.size() >= width ? text : text + std::string(width - text.size(), ' ');
}
std::string right(const std::string& text, std::size_t width) {
    return text.size() >= width ? text : std::string(width - text.size(), ' ') + text;
}

const char* recompute_name(config::Recompute kind) {
    switch (kind) {
        case config::Recompute::none:
            return "none";
        case config::Recompute::attention:
            return "attention";
        case config::Recompute::full:
            return "full";
    }
    return "";
}

void print_model(const config::ModelConfig& model, std::int64_t seq_len) {
    std::cout << "model      " << (model.preset.empty() ? "" : model.preset + ", ")
              << (model.arch == config::Arch::gpt2 ? "gpt2" : "llama") << ": " << model.num_layers
              << " layers, hidden " << model.hidden_size << ", heads " << model.num_heads;
    if (model.num_kv_heads != model.num_heads)
        std::cout << " over " << model.num_kv_heads << " key/value heads";
    std::cout << ", ffn " << model.ffn_size << ", vocabulary " << model.vocab_size
              << (model.tie_embeddings ? ", tied head" : "") << "\n"
              << "parameters " << grouped(config::parameter_count(model)) << "\n";
    char flops[32];
    std::snprintf(flops, sizeof flops, "%.4g", config::flops_per_token(model, seq_len));
    std::cout << "FLOPs      " << flops
              << " per token, forward and backward, causal half of attention, no recompute\n";
}

void print_batch(const config::JobSpec& spec) {
    const config::TrainConfig& train = spec.train;
    const std::int64_t tokens = train.global_batch * train.seq_len;
    std::cout << "batch      global_batch " << train.global_batch << " = micro_batch " << train.micro_batch
              << " x micro_batches " << spec.micro_batches() << " x dp " << spec.parallel.dp << "\n"
              << "tokens     " << grouped(tokens) << " per step (" << train.global_batch << " samples of "
              << train.seq_len << "), " << grouped(tokens * train.steps) << " in " << grouped(train.steps)
              << " steps\n";
}

void print_stages(const config::JobSpec& spec, const schedule::Schedule& schedule) {
    const config::ModelConfig& model = spec.model;
    const std::vector<std::int64_t>& layout = spec.pipeline.layers_per_stage;
    const config::ModelCost cost = config::forward_cost(model, spec.train.seq_len, spec.parallel.tp);
    std::vector<double> costs;
    double total = 0.0;
    for (std::size_t stage = 0; stage < layout.size(); ++stage) {
        costs.push_back(config::stage_cost(cost, layout[stage], stage == 0, stage + 1 == layout.size(),
                                           spec.train.recompute[stage]));
        total += costs.back();
    }
    const bool two_copies = schedule.copies() == 2;
    std::cout << "\nstage  " << right(two_copies ? "pp ranks" : "pp rank", 8) << "  " << padded("holds", 32)
              << right("parameters", 18) << right("share of work", 16) << "  recompute\n";
    std::int64_t layer = 0;
    for (std::size_t stage = 0; stage < layout.size(); ++stage) {
        const bool first = stage == 0, last = stage + 1 == layout.size();
        std::int64_t parameters = layout[stage] * config::layer_parameters(model);
        std::string holds = first ? "embedding, " : "";
        holds += layout[stage] == 1
                     ? "layer " + std::to_string(layer)
                     : "layers " + std::to_string(layer) + "-" + std::to_string(layer + layout[stage] - 1);
        if (first) parameters += config::embedding_parameters(model);
        if (last) {
            parameters += config::head_parameters(model);
            holds += ", head";
        }
        layer += layout[stage];
        const int here = static_cast<int>(stage);
        std::string ranks = std::to_string(schedule.rank_of(here));
        if (two_copies) ranks += ", " + std::to_string(schedule.rank_of(here, 1));
        std::cout << right(std::to_string(stage), 5) << "  " << right(ranks, 8) << "  " << padded(holds, 32)
                  << right(grouped(parameters), 18) << right(percent(costs[stage] / total), 16) << "  "
                  << recompute_name(spec.train.recompute[stage]);
        if (spec.train.recompute[stage] == config::Recompute::full && spec.train.recompute_every > 1)
            std::cout << " over groups of " << spec.train.recompute_every;
        std::cout << "\n";
    }
    if (two_copies)
        std::cout << "The ranks hold the model twice; micro-batches enter at both ends.\n";
    else if (model.tie_embeddings && schedule.rank_of(0) != schedule.rank_of(schedule.stages() - 1))
        std::cout << "The last stage also keeps a copy of the tied embedding ("
                  << grouped(model.vocab_size * model.hidden_size) << ").\n";
}

void print_schedule(const config::JobSpec& spec, const schedule::Schedule& schedule) {
    const auto idle = [&](const schedule::Durations& durations) {
        return percent(schedule::simulate(schedule, durations).idle_share);
    };
    std::cout << "\nschedule   " << train::schedule_text(spec) << ", idle "
              << idle(schedule::Durations::uniform(schedule.stages(), 1.0, 1.0, 1.0, 0.0))
              << " with equal stages (F, I and W of one length), " << idle(train::predicted_durations(spec))
              << " with these (" << (spec.run.clock == "sleep" ? "as run.layer_ms sets them" : "by FLOPs")
              << ", without communication)\n";
}

int run(const Arguments& arguments) {
    const config::Job job =
        config::load_resolved(config::read_job_file(arguments.job), arguments.overrides, arguments.ranks,
                              config::process_environment(), train::schedule_rules());
    const config::JobSpec& spec = job.spec;
    std::cout << "job        " << spec.run.name << " on " << arguments.ranks
              << (arguments.ranks == 1 ? " rank" : " ranks") << "\n"
              << "grid       tp " << spec.parallel.tp << " x pp " << spec.parallel.pp << " x dp "
              << spec.parallel.dp << " (tp fastest, pp slowest)\n";
    print_model(spec.model, spec.train.seq_len);
    print_batch(spec);
    const schedule::Schedule schedule = train::make_schedule(spec);
    print_stages(spec, schedule);
    print_schedule(spec, schedule);
    return 0;
}

}  // namespace

void add_check_command(CLI::App& app, std::function<int()>& action) {
    auto arguments = std::make_shared<Arguments>();
    CLI::App* command =
        app.add_subcommand("check", "find every error of a job spec, or show what it comes to");
    command->add_option("job", arguments->job, "job spec, a YAML file")->required();
    command->add_option("-n,--ranks", arguments->ranks, "processes of the job")
        ->required()
        ->check(whole_number(1, config::most_ranks));
    command
        ->add_option("--set", arguments->overrides,
                     "section.key=value, over the file; may be given several times")
        ->allow_extra_args(false);
    command->callback([&action, arguments] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace escalier::apps
