#include "train/largest_micro_batch.h"

#include <algorithm>

#include "config/validate.h"
#include "core/error.h"
#include "train/schedule_rules.h"

namespace escalier::train {

namespace {

// The spec with this micro-batch; none where the schedule does not take so many micro-batches.
std::optional<config::JobSpec> with_micro_batch(config::JobSpec spec, std::int64_t micro_batch) {
    spec.train.micro_batch = micro_batch;
    try {
        return config::resolve(spec, spec.parallel.tp * spec.parallel.pp * spec.parallel.dp,
                               schedule_rules());
    } catch (const ConfigError&) {
        return std::nullopt;
    }
}

}  // namespace

std::optional<std::int64_t> largest_micro_batch(const config::JobSpec& resolved,
                                                const PlannedMachine& machine, std::int64_t limit) {
    const std::int64_t samples = resolved.train.global_batch / resolved.parallel.dp;
    std::optional<std::int64_t> largest;
    for (std::int64_t micro_batch = 1; micro_batch <= samples; ++micro_batch) {
        if (samples % micro_batch != 0) continue;
        const std::optional<config::JobSpec> spec = with_micro_batch(resolved, micro_batch);
        if (!spec) continue;
        const std::vector<RankMemory> ranks = PlannedJob(*spec, machine).fullest_ranks();
        if (std::any_of(ranks.begin(), ranks.end(),
                        [&](const RankMemory& rank) { return rank.total() > limit; }))
            break;
        largest = micro_batch;
    }
    return largest;
}

}  // namespace escalier::train
