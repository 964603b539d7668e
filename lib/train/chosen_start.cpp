#include "train/chosen_start.h"

#include "checkpoint/verify.h"
#include "comm/broadcast_text.h"

namespace escalier::train {

ChosenStart choose_start_together(const config::JobSpec& spec, bool own_run_first, bool dry_run,
                                  comm::MpiEnv& env) {
    ChosenStart chosen;
    StartPoint& point = chosen.point;
    std::vector<Damaged> damaged;
    for (;;) {
        env.agree([&] {
            if (env.world().rank() != 0) return;
            point = choose_start(spec, own_run_first, damaged);
            if (dry_run || chosen.directory || point.run_directory.empty()) return;
            chosen.directory = std::make_unique<RunDirectory>(point.run_directory);
            point = choose_start(spec, own_run_first, damaged);  // the job that held it may have saved since
        });
        for (auto each = damaged.rbegin(); each != damaged.rend(); ++each)
            point.notes.insert(point.notes.begin(), "warning: " + each->reason);
        comm::broadcast_text(point.checkpoint, env.world(), "the checkpoint to resume");
        comm::broadcast_text(point.run_directory, env.world(), "the folder to go on in");
        if (point.checkpoint.empty()) return chosen;
        try {
            env.activity().begin(comm::Doing::loading_checkpoint);
            env.agree([&] {
                chosen.checkpoint = std::make_unique<checkpoint::CheckpointReader>(point.checkpoint);
                chosen.checkpoint->config_text();
            });
            checkpoint::verify_files(*chosen.checkpoint, env);
            return chosen;
        } catch (const comm::AgreedError& error) {
            // An older one may be sound. What is no damage may be over when the job is started again.
            if (error.code() != ExitCode::data_corrupt) throw;
            damaged.push_back({point.checkpoint, error.what()});
        }
    }
}

}  // namespace escalier::train
