#include "plan/balance.h"

#include <algorithm>
#include <limits>

#include "core/check.h"

namespace escalier::plan {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

std::size_t at(std::int64_t i) {
    return static_cast<std::size_t>(i);
}

// The fastest way to run a stage with so many layers.
struct Cell {
    double seconds = never;
    config::Recompute recompute = config::Recompute::none;
};

class Solver {
 public:
    explicit Solver(const BalanceProblem& problem)
        : problem_(problem),
          stages_(problem.stages),
          layers_(problem.num_layers),
          most_(layers_ - stages_ + 1) {
        cells_.resize(at(stages_ * (most_ + 1)));
        for (int stage = 0; stage < stages_; ++stage)
            for (std::int64_t layers = 1; layers <= most_; ++layers) fill(stage, layers);
    }

    Balance run() {
        const double limit =
            solve([](double before, double stage) { return std::max(before, stage); }, never);
        Balance out;
        if (limit == never) return out;
        constexpr double rounding = 1e-12;
        solve([](double before, double stage) { return before + stage * stage; }, limit * (1 + rounding));
        out.slowest = limit;
        out.layers.resize(at(stages_));
        out.recompute.resize(at(stages_));
        std::int64_t used = layers_;
        for (int stage = stages_ - 1; stage >= 0; --stage) {
            const std::int64_t layers = taken_[at(stage * (layers_ + 1) + used)];
            out.layers[at(stage)] = layers;
            out.recompute[at(stage)] = cell(stage, layers).recompute;
            used -= layers;
        }
        return out;
    }

 private:
    Cell& cell(int stage, std::int64_t layers) { return cells_[at(stage * (most_ + 1) + layers)]; }

    void fill(int stage, std::int64_t layers) {
        Cell& best = cell(stage, layers);
        for (const config::Recompute recompute : problem_.choices[at(stage)]) {
            if (problem_.fits && !problem_.fits(stage, layers, recompute)) continue;
            const double seconds = problem_.seconds(stage, layers, recompute);
            if (seconds < best.seconds) best = {seconds, recompute};
        }
    }

    // best[stage][used]: the least `combine` of the first stages when they hold `used` layers; stages slower
    // than `limit` are left out. taken_ tells how many the last of them holds.
    template <class Combine>
    double solve(const Combine& combine, double limit) {
        const std::int64_t width = layers_ + 1;
        std::vector<double> best(at((stages_ + 1) * width), never);
        taken_.assign(at(stages_ * width), 0);
        best[0] = 0;
        for (int stage = 0; stage < stages_; ++stage)
            for (std::int64_t used = stage + 1; used <= layers_ - (stages_ - 1 - stage); ++used)
                for (std::int64_t layers = std::min(most_, used - stage); layers >= 1; --layers) {
                    const double before = best[at(stage * width + used - layers)];
                    const double seconds = cell(stage, layers).seconds;
                    if (before == never || seconds > limit || seconds == never) continue;
                    const double sum = combine(before, seconds);
                    double& now = best[at((stage + 1) * width + used)];
                    if (sum >= now) continue;
                    now = sum;
                    taken_[at(stage * width + used)] = layers;
                }
        return best[at(stages_ * width + layers_)];
    }

    const BalanceProblem& problem_;
    const int stages_;
    const std::int64_t layers_, most_;
    std::vector<Cell> cells_;          // [stage][layers]
    std::vector<std::int64_t> taken_;  // [stage][used]
};

}  // namespace

Balance balance(const BalanceProblem& problem) {
    ESCALIER_CHECK(problem.stages >= 1 && problem.num_layers >= problem.stages, "every stage needs a layer");
    ESCALIER_CHECK(problem.choices.size() == at(problem.stages), "choices are given per stage");
    return Solver(problem).run();
}

}  // namespace escalier::plan
