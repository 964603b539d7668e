#include "plan/search.h"

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

#include "plan/balance.h"
#include "plan/stage_memory.h"
#include "plan/stage_times.h"
#include "schedule/generators.h"
#include "schedule/memory.h"

namespace escalier::plan {

namespace {

std::size_t at(std::int64_t i) {
    return static_cast<std::size_t>(i);
}

schedule::Schedule make_schedule(const Candidate& c) {
    schedule::GenerateOptions options;
    options.kind = c.schedule;
    options.pp = static_cast<int>(c.grid.pp);
    options.chunks = c.chunks;
    options.micro_batches = static_cast<int>(c.micro_batches);
    return schedule::generate(options);
}

config::ModelTimes times_of(const SearchProblem& problem, const Candidate& c) {
    const config::JobSpec& spec = problem.spec;
    return roofline_times(spec.model, c.micro_batch, spec.train.seq_len, spec.train.dtype, c.grid,
                          problem.hardware);
}

config::JobSpec spec_of(const SearchProblem& problem, const Candidate& c) {
    config::JobSpec spec = problem.spec;
    spec.parallel = {c.grid.tp, c.grid.pp, c.grid.dp};
    spec.pipeline = {};
    spec.pipeline.schedule = c.schedule;
    spec.pipeline.chunks = c.chunks;
    spec.pipeline.layout.clear();
    spec.pipeline.layers_per_stage = c.layers;
    spec.train.micro_batch = c.micro_batch;
    spec.train.recompute_every = 1;
    const config::Recompute recompute = c.recompute == RecomputeChoice::full ? config::Recompute::full
                                        : c.recompute == RecomputeChoice::attention
                                            ? config::Recompute::attention
                                            : config::Recompute::none;
    spec.train.recompute.assign(c.layers.size(), recompute);
    return spec;
}

// Layers and recompute of every stage together, within what memory a rank gives to each of its stages.
bool choose_per_stage(const SearchProblem& problem, const Candidate& c, const config::ModelTimes& times,
                      config::JobSpec& spec) {
    const int stages = c.stages();
    const bool split = make_schedule(c).has_split_backward();
    BalanceProblem balanced;
    balanced.num_layers = problem.spec.model.num_layers;
    balanced.stages = stages;
    balanced.choices.assign(at(stages),
                            {config::Recompute::none, config::Recompute::attention, config::Recompute::full});
    balanced.seconds = [&](int stage, std::int64_t layers, config::Recompute recompute) {
        return stage_seconds(times, layers, stage == 0, stage + 1 == stages, recompute, split);
    };
    balanced.fits = [&](int stage, std::int64_t layers, config::Recompute recompute) {
        return stage_bytes(c, problem.spec, stage, layers, recompute) * c.chunks <= problem.memory_limit;
    };
    Balance found = balance(balanced);
    if (found.layers.empty()) return false;
    spec.pipeline.layers_per_stage = std::move(found.layers);
    spec.train.recompute = std::move(found.recompute);
    return true;
}

// With estimated bytes; infinitely many where per_stage finds no stages that fit.
Found priced(const SearchProblem& problem, const Candidate& candidate) {
    Found found;
    found.candidate = candidate;
    found.spec = spec_of(problem, candidate);
    found.bytes = std::numeric_limits<double>::infinity();
    const config::ModelTimes times = times_of(problem, candidate);
    if (candidate.recompute == RecomputeChoice::per_stage &&
        !choose_per_stage(problem, candidate, times, found.spec))
        return found;
    found.candidate.layers = found.spec.pipeline.layers_per_stage;
    found.schedule = std::make_shared<const schedule::Schedule>(make_schedule(candidate));
    found.prediction =
        predict(found.spec, *found.schedule, times, problem.hardware.peak_flops(problem.spec.train.dtype));
    found.bytes = estimated_bytes(found.spec, *found.schedule);
    return found;
}

constexpr double estimate_may_be_above = 1.1;  // what a rank really takes

using Key = std::tuple<std::int64_t, std::int64_t, std::string>;  // tp, pp, schedule

class Search {
 public:
    explicit Search(const SearchProblem& problem) : problem_(problem) {}

    SearchResult run() {
        for (Candidate& candidate : enumerate(problem_.spec, problem_.ranks)) {
            ++result_.candidates;
            queue(std::move(candidate), RecomputeChoice::none);
        }
        while (!waiting_.empty() && waiting_.top().bound < slowest_wanted()) {
            Candidate candidate = waiting_.top();
            waiting_.pop();
            const auto known = found_.find(key(candidate));
            if (known != found_.end() && known->second.prediction.step <= candidate.bound) continue;
            if (result_.simulated == static_cast<std::size_t>(problem_.most_tried)) {
                result_.complete = false;
                break;
            }
            attempt(std::move(candidate));
        }
        for (auto& [unused, found] : found_) result_.best.push_back(std::move(found));
        std::sort(result_.best.begin(), result_.best.end(),
                  [](const Found& a, const Found& b) { return a.prediction.step < b.prediction.step; });
        if (result_.best.size() > at(problem_.best)) result_.best.resize(at(problem_.best));
        return std::move(result_);
    }

 private:
    struct Later {
        bool operator()(const Candidate& a, const Candidate& b) const { return a.bound > b.bound; }
    };

    static Key key(const Candidate& c) { return {c.grid.tp, c.grid.pp, c.schedule}; }

    const config::ModelTimes& times(const Candidate& c) {
        const auto place = std::make_tuple(c.grid.tp, c.grid.pp, c.micro_batch);
        const auto known = times_.find(place);
        return known != times_.end() ? known->second
                                     : times_.emplace(place, times_of(problem_, c)).first->second;
    }

    // With the first recompute from `first` on that an estimate from below lets fit.
    void queue(Candidate candidate, RecomputeChoice first) {
        for (const RecomputeChoice choice : {RecomputeChoice::none, RecomputeChoice::attention}) {
            if (choice < first) continue;
            candidate.recompute = choice;
            price(candidate, problem_.spec, times(candidate));
            if (candidate.bytes / estimate_may_be_above > problem_.memory_limit) continue;
            waiting_.push(std::move(candidate));
            return;
        }
        // Per stage is at least as fast as full everywhere, and at least as slow as none.
        Candidate full = candidate;
        full.recompute = RecomputeChoice::full;
        price(full, problem_.spec, times(full));
        if (full.bytes / estimate_may_be_above > problem_.memory_limit) {
            ++result_.too_large;
            return;
        }
        if (candidate.layout == Layout::balanced) {
            candidate.recompute = RecomputeChoice::none;
            price(candidate, problem_.spec, times(candidate));
            candidate.recompute = RecomputeChoice::per_stage;
            candidate.bytes = 0;
            waiting_.push(std::move(candidate));
        }
        waiting_.push(std::move(full));
    }

    double slowest_wanted() const {
        if (found_.size() < at(problem_.best)) return std::numeric_limits<double>::infinity();
        std::vector<double> steps;
        for (const auto& [unused, found] : found_) steps.push_back(found.prediction.step);
        std::nth_element(steps.begin(), steps.begin() + problem_.best - 1, steps.end());
        return steps[at(problem_.best - 1)];
    }

    void attempt(Candidate candidate) {
        // Layouts of different names may be the same; those of other chunks have other stages.
        const auto [tried, is_new] = tried_.try_emplace(
            {key(candidate), candidate.micro_batch, candidate.recompute, candidate.layers}, false);
        bool& too_large = tried->second;
        if (is_new) {
            ++result_.simulated;
            Found found = priced(problem_, candidate);
            if (problem_.memory && wanted(found) &&
                found.bytes <= estimate_may_be_above * problem_.memory_limit)
                found.bytes = problem_.memory(found.spec, *found.schedule);
            too_large = found.bytes > problem_.memory_limit;
            if (!too_large && wanted(found)) found_[key(candidate)] = std::move(found);
        }
        if (!too_large) return;
        const bool more_left =
            candidate.recompute == RecomputeChoice::none || candidate.recompute == RecomputeChoice::attention;
        if (more_left)
            queue(std::move(candidate),
                  static_cast<RecomputeChoice>(static_cast<int>(candidate.recompute) + 1));
        else if (candidate.recompute == RecomputeChoice::full)  // nothing takes less
            ++result_.too_large;
    }

    // Whether it is faster than what is known of its grid and schedule, and among the best.
    bool wanted(const Found& found) const {
        const auto known = found_.find(key(found.candidate));
        if (known != found_.end()) return found.prediction.step < known->second.prediction.step;
        return found.prediction.step < slowest_wanted();
    }

    const SearchProblem& problem_;
    SearchResult result_;
    std::priority_queue<Candidate, std::vector<Candidate>, Later> waiting_;
    std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, config::ModelTimes> times_;
    std::map<std::tuple<Key, std::int64_t, RecomputeChoice, std::vector<std::int64_t>>, bool>
        tried_;                   // too large
    std::map<Key, Found> found_;  // the fastest of each grid and schedule
};

}  // namespace

double estimated_bytes(const config::JobSpec& spec, const schedule::Schedule& schedule) {
    std::vector<double> peaks = schedule::peak_bytes(schedule, activation_bytes(spec));
    const PartElements elements = part_elements(spec.model, spec.parallel.tp);
    const double each = state_bytes_per_element(spec.optimizer, spec.train.dtype);
    const double rows = static_cast<double>(spec.train.micro_batch * spec.train.seq_len);
    const double boundary =
        4 * rows * static_cast<double>(spec.model.hidden_size) * (spec.train.dtype == "bf16" ? 2 : 4);
    const int last = schedule.stages() - 1;
    const bool ends_meet = schedule.copies() == 2 || schedule.rank_of(0) == schedule.rank_of(last);
    for (int copy = 0; copy < schedule.copies(); ++copy)
        for (int stage = 0; stage <= last; ++stage)
            peaks[at(schedule.rank_of(stage, copy))] +=
                boundary + each * stage_elements(elements, spec.pipeline.layers_per_stage[at(stage)],
                                                 stage == 0, stage == last,
                                                 spec.model.tie_embeddings && ends_meet);
    return *std::max_element(peaks.begin(), peaks.end());
}

Found try_candidate(const SearchProblem& problem, const Candidate& candidate) {
    Found found = priced(problem, candidate);
    if (problem.memory && found.schedule) found.bytes = problem.memory(found.spec, *found.schedule);
    return found;
}

SearchResult search(const SearchProblem& problem) {
    return Search(problem).run();
}

}  // namespace escalier::plan
