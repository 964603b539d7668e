#include "train_command.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collective.h"
#include "comm/mpi_env.h"
#include "config/validate.h"
#include "job_everywhere.h"
#include "train/schedule_rules.h"
#include "train/trainer.h"

namespace escalier::apps {

namespace {

struct TrainArguments {
    std::string job;
    std::vector<std::string> overrides;
    std::optional<std::string> resume;  // nothing: as the job spec says
    train::TrainOptions options;
};

config::Job load(const TrainArguments& arguments, std::int64_t ranks) {
    config::Job job = config::load_resolved(config::read_job_file(arguments.job), arguments.overrides, ranks,
                                            config::process_environment(), train::schedule_rules());
    config::require_data(job.spec);
    job.spec.sweep = {};  // of this job and others; a run is one of them
    std::string& resume = job.spec.checkpoint.resume;
    const bool names = resume != "none" && !resume.empty();
    // A checkpoint that the job names stands behind `--resume auto`.
    if (arguments.resume && !(arguments.resume == "auto" && names)) resume = *arguments.resume;
    if (resume.empty())
        throw ConfigError(
            "checkpoint.resume (--resume): found nothing, wanted auto, none, a run folder or one of its step "
            "folders");
    return job;
}

int run(const TrainArguments& arguments) {
    train::StopRequest stop;
    train::TrainOptions options = arguments.options;
    options.stop = &stop;
    options.own_run_first = arguments.resume == "auto";
    comm::MpiEnv env(nullptr, nullptr);
    return run_collective(env, [&] {
        const config::JobSpec spec =
            load_everywhere(env, arguments.job, [&] { return load(arguments, env.world().size()); });
        return train::train(spec, env, options);
    });
}

}  // namespace

void add_train_command(CLI::App& app, std::function<int()>& action) {
    auto arguments = std::make_shared<TrainArguments>();
    CLI::App* command = app.add_subcommand("train", "Train a model: mpirun -n N escalier train JOB");
    command->add_option("job", arguments->job, "Job spec (YAML)")->required();
    command->add_option("--set", arguments->overrides, "Override a key: --set train.steps=10 (YAML value)")
        ->allow_extra_args(false);
    command->add_option("--resume", arguments->resume,
                        "auto: the newest checkpoint of this run, if there is one, else as checkpoint.resume "
                        "says; none; or a "
                        "run folder or one of its step folders (checkpoint.resume)");
    command->add_option("--save-weights", arguments->options.save_weights,
                        "Write the weights to this safetensors file after the last step");
    command->add_flag("--dry-run", arguments->options.dry_run,
                      "Set everything up, print the start page, train nothing");
    command->callback([arguments, &action] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace escalier::apps
