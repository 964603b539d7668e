#include "job_everywhere.h"

#include "comm/broadcast_text.h"
#include "config/dump.h"
#include "config/validate.h"
#include "train/schedule_rules.h"

namespace escalier::apps {

config::JobSpec load_everywhere(comm::MpiEnv& env, const std::string& path,
                                const std::function<config::Job()>& load) {
    comm::Communicator& world = env.world();
    std::string text, schedule_file;
    env.agree([&] {
        if (world.rank() != 0) return;
        const config::JobSpec spec = load().spec;
        text = config::dump(spec);
        schedule_file = spec.pipeline.file_text;
    });
    comm::broadcast_text(text, world, "job spec");
    comm::broadcast_text(schedule_file, world, "schedule file");
    config::JobSpec spec;
    env.agree([&] {
        const auto rules = train::schedule_rules([&](const std::string&) { return schedule_file; });
        const config::Job job = config::load({path, text});
        const config::ParallelConfig& grid = job.spec.parallel;
        spec = config::resolve(job, grid.tp * grid.pp * grid.dp, rules).spec;
    });
    return spec;
}

}  // namespace escalier::apps
