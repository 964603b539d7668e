#include "train/stage_facts.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "config/model_facts.h"
#include "parallel/groups.h"

namespace escalier::train {

std::int64_t stage_parameters(const config::JobSpec& spec, const schedule::Schedule& schedule, int stage) {
    const parallel::ModelEnds ends = parallel::ends_of(schedule);
    const bool head_copy = spec.model.tie_embeddings && ends.first != ends.last && !ends.two_copies;
    std::int64_t count = spec.pipeline.layers_per_stage[static_cast<std::size_t>(stage)] *
                         config::layer_parameters(spec.model);
    if (stage == 0) count += config::embedding_parameters(spec.model);
    if (stage + 1 == schedule.stages()) {
        count += config::head_parameters(spec.model);
        if (head_copy) count += spec.model.vocab_size * spec.model.hidden_size;
    }
    return count;
}

int live_micro_batches(const schedule::Schedule& schedule, int stage, int copy) {
    using schedule::ActionKind;
    int live = 0, most = 0;
    for (const schedule::Action& action :
         schedule.ranks[static_cast<std::size_t>(schedule.rank_of(stage, copy))]) {
        if (action.stage != stage || schedule.copy_of(action.micro_batch) != copy) continue;
        if (action.kind == ActionKind::F) most = std::max(most, ++live);
        if (action.kind == ActionKind::B || action.kind == ActionKind::W) --live;
    }
    return most;
}

std::string recompute_text(config::Recompute recompute, std::int64_t every) {
    switch (recompute) {
        case config::Recompute::none:
            return "none";
        case config::Recompute::attention:
            return "attention";
        case config::Recompute::full:
            return every > 1 ? fmt::format("full, every {}", every) : "full";
    }
    return "";
}

}  // namespace escalier::train
