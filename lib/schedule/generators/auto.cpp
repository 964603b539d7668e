// The schedule for one model: of everything that fits its memory the fastest in the simulator, among the
// fixed kinds and what list scheduling finds for its own times and bytes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <sstream>

#include "core/error.h"
#include "schedule/generators/block_search.h"
#include "schedule/generators/exact_search.h"
#include "schedule/generators/kinds.h"
#include "schedule/generators/list_scheduler.h"
#include "schedule/generators/polish.h"
#include "schedule/memory.h"
#include "schedule/simulate.h"

namespace escalier::schedule::generators {
namespace {

std::size_t at(int i) {
    return static_cast<std::size_t>(i);
}

StageCosts costs_of(const GenerateOptions& options) {
    if (options.costs) return *options.costs;
    const int stages = options.pp * options.chunks;
    return {Durations::uniform(stages, 1, 1, 1, 0), ActivationBytes::unit(stages), {}};
}

bool fits(const Schedule& schedule, const StageCosts& costs) {
    if (costs.memory_limits.empty()) return true;
    const std::vector<double> peaks = peak_bytes(schedule, costs.bytes);
    for (std::size_t rank = 0; rank < peaks.size(); ++rank)
        if (peaks[rank] > costs.memory_limits[rank] * (1 + rounding)) return false;
    return true;
}

// Of all schedules offered that fit, the fastest; of equals that with the lowest peak.
class Fastest {
 public:
    Fastest(const StageCosts& costs, double bound) : costs_(costs), enough_(bound * (1 + rounding)) {}

    void offer(Schedule schedule) {
        if (!fits(schedule, costs_)) return;
        const double makespan = simulate(schedule, costs_.durations).makespan;
        const std::vector<double> peaks = peak_bytes(schedule, costs_.bytes);
        const double peak = *std::max_element(peaks.begin(), peaks.end());
        if (best_ && (makespan > makespan_ || (makespan == makespan_ && peak >= peak_))) return;
        best_ = std::move(schedule);
        makespan_ = makespan;
        peak_ = peak;
    }
    // No schedule is faster.
    bool done() const { return best_ && makespan_ <= enough_; }
    double makespan() const { return makespan_; }
    Schedule take() { return std::move(*best_); }

 private:
    const StageCosts& costs_;
    double enough_;
    std::optional<Schedule> best_;
    double makespan_ = 0, peak_ = 0;
};

// Every kind of the table that one copy of the model can run at this size, with the same weight-gradient
// order.
std::vector<Schedule> fixed_schedules(const GenerateOptions& options) {
    std::vector<Schedule> schedules;
    for (const Kind& kind : kinds()) {
        if (kind.name == options.kind || !kind.exact) continue;
        GenerateOptions fixed = options;
        fixed.kind = kind.name;
        fixed.costs = nullptr;
        if (!size_problem(kind, fixed).empty()) continue;
        Schedule schedule = kind.generate(fixed);
        if (schedule.copies() == 1) schedules.push_back(std::move(schedule));
    }
    return schedules;
}

// Throws unless one micro-batch at a time fits.
std::vector<PlacedModel> models_that_fit(const GenerateOptions& options, const StageCosts& costs) {
    std::vector<Placement> placements = {Placement::loop};
    if (options.chunks > 1 && options.pp > 1) placements.push_back(Placement::v);
    std::vector<PlacedModel> models;
    std::ostringstream shortage;
    shortage.precision(15);  // bytes in full
    for (const Placement placement : placements) {
        PlacedModel model(options, placement, costs);
        int rank = 0;
        while (rank < options.pp && model.need(rank) <= model.limits[at(rank)]) ++rank;
        if (rank == options.pp) {
            models.push_back(std::move(model));
            continue;
        }
        shortage.str("");
        shortage << "schedule `auto`: rank " << rank << " needs " << model.need(rank)
                 << " for the activations of one micro-batch, its memory limit is "
                 << costs.memory_limits[at(rank)]
                 << "; raise the limit, or use smaller micro-batches or more pipeline ranks";
    }
    if (models.empty()) throw ConfigError(shortage.str());
    return models;
}

std::int64_t actions_of(const PlacedModel& model) {
    return std::int64_t{3} * model.stages * model.shape.micro_batches;
}

// List schedules to try: fewer where each takes longer.
std::int64_t passes_for(const PlacedModel& model) {
    constexpr double most = 1500, effort = 40'000;
    return static_cast<std::int64_t>(
        std::min(most, effort / std::sqrt(static_cast<double>(actions_of(model)))));
}

// A block repeats, so its worth shows on fewer micro-batches than a long step has.
int enough_micro_batches(const GenerateOptions& options) {
    return std::min(options.micro_batches, 2 * options.pp + 32);
}

Schedule with_ranks(const PlacedModel& model, const std::vector<std::vector<Action>>& ranks) {
    Schedule schedule = model.shape;
    schedule.ranks = ranks;
    return schedule;
}

void offer_blocks(const GenerateOptions& options, const PlacedModel& model, Fastest& fastest) {
    GenerateOptions fewer = options;
    fewer.micro_batches = enough_micro_batches(options);
    const PlacedModel small(fewer, model.shape.placement, model.costs);
    ListScheduler scheduler(model);
    Guide guide, best_guide;
    double best = std::numeric_limits<double>::infinity();
    constexpr std::size_t keep = 4;
    for (const BlockGuide& block : search_blocks(small, passes_for(small), keep)) {
        fill_guide(block, options.micro_batches, guide);
        const double makespan = scheduler.run(guide);
        if (makespan >= best) continue;
        best = makespan;
        best_guide = guide;
        fastest.offer(with_ranks(model, scheduler.ranks()));
    }
    constexpr std::int64_t most_actions = 50'000;
    if (actions_of(model) > most_actions) return;
    polish(model, best_guide, passes_for(model));
    scheduler.run(best_guide);
    fastest.offer(with_ranks(model, scheduler.ranks()));
}

// Most small sizes are searched to the end.
void offer_exact(const PlacedModel& model, Fastest& fastest) {
    constexpr std::int64_t most_actions = 100, most_nodes = 100'000;
    if (actions_of(model) > most_actions) return;
    if (const auto ranks = shorter_order(model, fastest.makespan(), most_nodes))
        fastest.offer(with_ranks(model, *ranks));
}

// A fixed schedule's own times as guide: what it leaves idle or over the limit, the list scheduler mends.
void offer_mended(const Schedule& fixed, const PlacedModel& model, Fastest& fastest) {
    Guide guide;
    const std::size_t micro_batches = at(model.shape.micro_batches);
    guide.forward.resize(at(model.stages) * micro_batches);
    guide.input_gradient = guide.forward;
    for (const auto& row : simulate(fixed, model.costs.durations).ranks) {
        for (const TimedAction& timed : row) {
            const Action& action = timed.action;
            const std::size_t cell = at(action.stage) * micro_batches + at(action.micro_batch);
            if (action.kind == ActionKind::F) guide.forward[cell] = timed.start;
            if (action.kind == ActionKind::I || action.kind == ActionKind::B)
                guide.input_gradient[cell] = timed.start;
        }
    }
    ListScheduler scheduler(model);
    for (const double fill : {0.0, 0.6}) {
        guide.strict = true;
        guide.fill.assign(at(model.shape.pp), fill);
        guide.patience = guide.fill;
        scheduler.run(guide);
        fastest.offer(with_ranks(model, scheduler.ranks()));
    }
}

}  // namespace

std::string auto_problem(const GenerateOptions&) {
    return "";
}

Schedule auto_schedule(const GenerateOptions& options) {
    const StageCosts costs = costs_of(options);
    const std::vector<PlacedModel> models = models_that_fit(options, costs);
    double bound = std::numeric_limits<double>::infinity();
    for (const PlacedModel& model : models) bound = std::min(bound, lower_bound(model));
    Fastest fastest(costs, bound);
    for (Schedule& fixed : fixed_schedules(options)) {
        for (const PlacedModel& model : models)
            if (model.shape.placement == fixed.placement && !fastest.done())
                offer_mended(fixed, model, fastest);
        fastest.offer(std::move(fixed));
    }
    for (const PlacedModel& model : models)
        if (!fastest.done()) offer_blocks(options, model, fastest);
    for (const PlacedModel& model : models)
        if (!fastest.done()) offer_exact(model, fastest);
    Schedule best = fastest.take();
    best.kind = options.kind;
    return best;
}

}  // namespace escalier::schedule::generators
