#include "train/save_facts.h"

#include "config/dump.h"

namespace escalier::train {

checkpoint::SaveFacts save_facts(Assembly& assembly, std::int64_t step, std::int64_t consumed_samples,
                                 const std::string& dataset_fingerprint,
                                 const std::string& assets_directory) {
    const config::JobSpec& spec = assembly.spec();
    const parallel::Grid& grid = assembly.groups().grid;
    const GuardState& guard = assembly.step().guard().state();
    checkpoint::SaveFacts facts;
    facts.run.step = step;
    facts.run.updates = assembly.step().updates();
    facts.run.consumed_samples = consumed_samples;
    facts.run.consumed_tokens = consumed_samples * spec.train.seq_len;
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
