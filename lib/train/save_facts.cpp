#include "train/save_facts.h"

#include "config/dump.h"

namespace escalier::train {

checkpoint::SaveFacts save_facts(Assembly& assembly, const RunProgress& progress,
                                 const std::string& dataset_fingerprint,
                                 const std::string& assets_directory) {
    const config::JobSpec& spec = assembly.spec();
    const parallel::Grid& grid = assembly.groups().grid;
    const GuardState& guard = assembly.step().guard().state();
    checkpoint::SaveFacts facts;
    facts.run.step = progress.steps;
    facts.run.updates = assembly.step().updates();
    facts.run.consumed_samples = progress.consumed_samples;
    facts.run.consumed_tokens = progress.consumed_tokens;
    facts.run.seed = spec.run.seed;
    facts.run.dataset_fingerprint = dataset_fingerprint;
    facts.run.tool_version = ESCALIER_VERSION;
    facts.run.tp = grid.tp;
    facts.run.pp = grid.pp;
    facts.run.dp = grid.dp;
    facts.run.schedule = spec.pipeline.schedule;
    facts.run.optimizer = spec.optimizer.name;
    facts.run.loss_window = guard.losses;
    facts.run.norm_window = guard.norms;
    facts.run.skipped = guard.skipped;
    facts.config_text = config::dump(spec);
    facts.assets_directory = assets_directory;
    return facts;
}

}  // namespace escalier::train
