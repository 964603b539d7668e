#include "schedule/generators/polish.h"

#include "schedule/generators/search_random.h"

namespace escalier::schedule::generators {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

std::size_t at(int i) {
    return static_cast<std::size_t>(i);
}

// Changes single actions' keys, from the times of the best schedule so far.
class Polish {
 public:
    Polish(const PlacedModel& model, Guide& guide, std::int64_t passes)
        : model_(model),
          scheduler_(model),
          best_guide_(guide),
          passes_(passes),
          step_(model.longest_work()) {}

    // Accepts what is a little longer, less and less so.
    double run() {
        double best = scheduler_.run(best_guide_);
        const double enough = lower_bound(model_) * (1 + rounding);
        Guide base = best_guide_, next;
        scheduler_.copy_times(base);
        for (std::int64_t pass = 0; pass < passes_ && best > enough; ++pass) {
            const double left = 1 - static_cast<double>(pass) / static_cast<double>(passes_);
            next = base;
            for (int changes = 1 + random_.below(3); changes > 0; --changes) change(next);
            const double makespan = scheduler_.run(next, best * (1 + 0.02 * left * left));
            if (makespan == never) continue;
            if (makespan < best) {
                best = makespan;
                best_guide_ = next;
            }
            std::swap(base, next);
            scheduler_.copy_times(base);
        }
        return best;
    }

 private:
    void change(Guide& guide) {
        if (random_.below(8) == 0) {
            switch (random_.below(5)) {
                case 0:
                    change_share(guide.fill, random_);
                    break;
                case 1:
                    change_share(guide.patience, random_);
                    break;
                case 2:
                    guide.free_memory_first = !guide.free_memory_first;
                    break;
                case 3:
                    guide.strict = !guide.strict;
                    break;
                default:
                    guide.foresees = !guide.foresees;
            }
            return;
        }
        std::vector<double>& keys = which(guide, random_.below(3));
        double& key = keys[at(random_.below(static_cast<int>(keys.size())))];
        if (&keys == &guide.weight_gradient && random_.below(3) == 0)
            key = never;  // as if it had none
        else
            key += (2 * random_.next() - 1) * step_;
    }
    static std::vector<double>& which(Guide& guide, int kind) {
        return kind == 0 ? guide.forward : kind == 1 ? guide.input_gradient : guide.weight_gradient;
    }

    const PlacedModel& model_;
    ListScheduler scheduler_;
    Guide& best_guide_;
    std::int64_t passes_;
    double step_;
    Random random_{1};
};

}  // namespace

double polish(const PlacedModel& model, Guide& guide, std::int64_t passes) {
    return Polish(model, guide, passes).run();
}

}  // namespace escalier::schedule::generators
