#include "plan_measure.h"

#include <spdlog/fmt/fmt.h>

#include <filesystem>
#include <fstream>
#include <iostream>

#include "collective.h"
#include "comm/broadcast_text.h"
#include "comm/mpi_env.h"
#include "config/dump.h"
#include "config/validate.h"
#include "core/error.h"
#include "core/write_target.h"
#include "train/measure_profile.h"
#include "train/schedule_rules.h"
#include "train/trainer.h"

namespace escalier::apps {

namespace {

// The parts' times are the same in any layout and with any recompute, and a profile that would choose them
// need not be there yet.
config::JobSpec load_everywhere(const std::string& path, std::vector<std::string> overrides,
                                std::int64_t ranks, comm::MpiEnv& env) {
    std::string text;
    env.agree([&] {
        if (env.world().rank() != 0) return;
        const config::JobFile file = config::read_job_file(path);
        overrides.emplace_back("pipeline.layout=even");
        if (config::load(file, overrides).spec.train.recompute.empty())
            overrides.emplace_back("train.recompute=none");
        config::JobSpec spec = config::load_resolved(file, overrides, ranks, config::process_environment(),
                                                     train::schedule_rules())
                                   .spec;
        spec.pipeline.file.clear();  // the layers' times are the same in any order
        spec.pipeline.schedule = "1f1b";
        text = config::dump(spec);
    });
    comm::broadcast_text(text, env.world(), "job spec");
    return config::load({path, text}).spec;
}

void require_written(const std::ofstream& out, const std::string& path) {
    if (!out)
        throw IoError::write("--out " + path + ": cannot be written; give a path in a folder that is there");
}

// Says so before minutes of measuring, and leaves what is there as it is.
void require_writable(const std::string& path) {
    const std::string target = write_target(path);
    const bool was_there = std::filesystem::exists(target);
    require_written(std::ofstream(target, std::ios::app), path);
    if (!was_there) std::filesystem::remove(target);
}

void write(const std::string& path, const std::string& text) {
    std::ofstream out(write_target(path));
    out << text;
    out.close();
    require_written(out, path);
}

std::string page(const config::Profile& p) {
    const auto line = [](const char* name, const config::PartTimes& part) {
        return fmt::format("{:<10} F {:9.3f}  B {:9.3f}  I {:9.3f}  W {:9.3f} ms\n", name, 1e3 * part.forward,
                           1e3 * part.backward, 1e3 * part.input_gradient, 1e3 * part.weight_gradient);
    };
    return line("embedding", p.times.embedding) + line("layer", p.times.layer) + line("head", p.times.head) +
           fmt::format("recompute  attention {:.3f}, full {:.3f} ms a layer\nmessage    {:.3f} ms\n",
                       1e3 * p.times.attention_again, 1e3 * p.times.layer_again, 1e3 * p.times.message) +
           fmt::format("parameter  update {:.3f}, norm {:.3f}, sum over replicas {:.3f} ns\n",
                       1e9 * p.times.optimizer, 1e9 * p.times.norm, 1e9 * p.times.reduction);
}

}  // namespace

int run_measure(const MeasureArguments& arguments, const std::string& job_path,
                const std::vector<std::string>& overrides, std::int64_t ranks) {
    comm::MpiEnv env(nullptr, nullptr);
    return run_collective(env, [&] {
        const config::JobSpec spec = load_everywhere(job_path, overrides, ranks, env);
        env.agree([&] {
            if (env.world().rank() == 0) require_writable(arguments.out);
        });
        env.start_watchdog(static_cast<double>(spec.run.comm_timeout_s));
        const config::Profile profile = train::measure_profile(
            spec, env, {train::compute_threads(spec.run, env.place()), arguments.repeats});
        env.agree([&] {
            if (env.world().rank() != 0) return;
            write(arguments.out, config::dump(profile));
            std::cout << page(profile) << "profile    " << arguments.out << "\n";
        });
        return 0;
    });
}

}  // namespace escalier::apps
