#include "print_config_command.h"

#include <algorithm>
#include <iostream>
#include <memory>

#include "config/dump.h"
#include "config/fields.h"
#include "config/validate.h"
#include "number_options.h"
#include "train/schedule_rules.h"

namespace escalier::apps {

namespace {

struct Arguments {
    std::string job;
    std::int64_t ranks = 0;  // 0: what the spec's own grid needs
    std::vector<std::string> overrides;
    bool origin = false;
};

int run(const Arguments& arguments) {
    const config::JobFile file = config::read_job_file(arguments.job);
    std::int64_t ranks = arguments.ranks;
    if (ranks == 0) {
        config::Problems reported_by_load_resolved;
        const config::ParallelConfig grid =
            config::load(file, arguments.overrides, config::process_environment(), reported_by_load_resolved)
                .spec.parallel;
        ranks = grid.tp * grid.pp * std::max<std::int64_t>(grid.dp, 1);
    }
    const config::Job job = config::load_resolved(file, arguments.overrides, ranks,
                                                  config::process_environment(), train::schedule_rules());
    std::cout << (arguments.origin ? config::dump(job.spec, job.origins) : config::dump(job.spec));
    return 0;
}

}  // namespace

void add_print_config_command(CLI::App& app, std::function<int()>& action) {
    auto arguments = std::make_shared<Arguments>();
    CLI::App* command =
        app.add_subcommand("print-config", "print the job spec with every default and auto filled in");
    command->add_option("job", arguments->job, "job spec, a YAML file")->required();
    command
        ->add_option("-n,--ranks", arguments->ranks, "processes of the job; default: what tp x pp x dp needs")
        ->check(whole_number(1, config::most_ranks));
    command
        ->add_option("--set", arguments->overrides,
                     "section.key=value, over the file; may be given several times")
        ->allow_extra_args(false);
    command->add_flag("--origin", arguments->origin, "say behind each value where it came from");
    command->callback([&action, arguments] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace escalier::apps
