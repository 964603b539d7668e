#include "plan/prediction.h"

#include <algorithm>

#include "config/model_facts.h"
#include "plan/stage_times.h"

namespace escalier::plan {

namespace {

using schedule::Action;
using schedule::Schedule;
using schedule::Timeline;

class Predictor {
 public:
    Predictor(const config::JobSpec& spec, const Schedule& schedule, const config::ModelTimes& times,
              double peak)
        : spec_(spec),
          schedule_(schedule),
          times_(times),
          peak_(peak),
          stages_(stage_times(spec, times, schedule.has_split_backward())),
          elements_(part_elements(spec.model, spec.parallel.tp)) {}

    const schedule::Durations& durations() const { return stages_.durations; }

    Prediction finish(Timeline timeline, const Timeline& without_messages) {
        Prediction p;
        p.ranks.resize(static_cast<std::size_t>(schedule_.pp));
        p.data = times_.data * static_cast<double>(spec_.micro_batches());
        p.pipeline = timeline.makespan;
        for (int rank = 0; rank < schedule_.pp; ++rank) {
            RankPrediction& r = p.ranks[static_cast<std::size_t>(rank)];
            add_stages(r, rank);
            r.busy = timeline.busy[static_cast<std::size_t>(rank)];
            r.bubble = without_messages.makespan - r.busy;
            r.messages = timeline.makespan - without_messages.makespan;
            r.exchange = exchange(timeline.ranks[static_cast<std::size_t>(rank)]);
        }
        const double complete = gradients_complete(timeline, p.ranks);
        p.reduction = std::max(0.0, complete - timeline.makespan);
        for (RankPrediction& r : p.ranks) {
            r.reduction = p.reduction;
            r.optimizer = times_.optimizer * r.elements;
            p.norm = std::max(p.norm, times_.norm * r.elements);
            p.optimizer = std::max(p.optimizer, r.optimizer);
        }
        p.norm += times_.step;
        p.step = p.data + p.pipeline + p.reduction + p.norm + p.optimizer;
        p.timeline = std::move(timeline);
        summarize(p);
        return p;
    }

 private:
    bool last(int stage) const { return stage + 1 == schedule_.stages(); }

    // Of one stage's gradients on one rank.
    double stage_elements(int stage) const {
        const auto at = static_cast<std::size_t>(stage);
        return static_cast<double>(spec_.pipeline.layers_per_stage[at]) * elements_.layer +
               (stage == 0 ? elements_.embedding : 0) + (last(stage) ? elements_.head : 0);
    }

    bool holds(int rank, int stage) const {
        for (int copy = 0; copy < schedule_.copies(); ++copy)
            if (schedule_.rank_of(stage, copy) == rank) return true;
        return false;
    }

    void add_stages(RankPrediction& r, int rank) const {
        for (int stage = 0; stage < schedule_.stages(); ++stage) {
            if (!holds(rank, stage)) continue;
            const auto at = static_cast<std::size_t>(stage);
            r.forward += stages_.durations.forward[at];
            r.input_gradient += stages_.durations.input_gradient[at];
            r.weight_gradient += stages_.durations.weight_gradient[at];
            r.elements += stage_elements(stage);
        }
        if (tied_here(rank)) r.elements -= elements_.table;
    }

    bool tied_here(int rank) const {
        return spec_.model.tie_embeddings && holds(rank, 0) && holds(rank, schedule_.stages() - 1);
    }

    double exchange(const std::vector<schedule::TimedAction>& actions) const {
        double sum = 0;
        for (const schedule::TimedAction& timed : actions) {
            const auto at = static_cast<std::size_t>(timed.action.stage);
            if (timed.action.kind == schedule::ActionKind::F) sum += stages_.forward_exchange[at];
            if (schedule::is_input_half(timed.action.kind)) sum += stages_.backward_exchange[at];
        }
        return sum;
    }

    // When the replicas' sum of one rank is done: a stage's starts behind its last weight gradients and
    // behind the stage's before it.
    double replicas_summed(const std::vector<schedule::TimedAction>& actions) const {
        std::vector<double> ready(static_cast<std::size_t>(schedule_.places()), -1);
        std::vector<int> order;
        double done = actions.empty() ? 0 : actions.back().end;
        for (const schedule::TimedAction& timed : actions)
            if (schedule::is_weight_half(timed.action.kind))
                ready[static_cast<std::size_t>(schedule_.place_of(timed.action))] = timed.end;
        for (int place = 0; place < schedule_.places(); ++place)
            if (ready[static_cast<std::size_t>(place)] >= 0) order.push_back(place);
        std::sort(order.begin(), order.end(), [&](int a, int b) {
            return ready[static_cast<std::size_t>(a)] < ready[static_cast<std::size_t>(b)];
        });
        if (spec_.parallel.dp == 1) return done;
        double summed = 0;
        for (const int place : order)
            summed = std::max(summed, ready[static_cast<std::size_t>(place)]) +
                     times_.reduction * stage_elements(place % schedule_.stages());
        return std::max(done, summed);
    }

    double gradients_complete(const Timeline& timeline, const std::vector<RankPrediction>& ranks) const {
        std::vector<double> done;
        for (std::size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
            done.push_back(replicas_summed(timeline.ranks[rank]));
            if (schedule_.copies() == 2) done.back() += times_.remote_tie * ranks[rank].elements;
        }
        if (spec_.model.tie_embeddings) {
            const auto first = static_cast<std::size_t>(schedule_.rank_of(0));
            const auto behind = static_cast<std::size_t>(schedule_.rank_of(schedule_.stages() - 1));
            const bool together = tied_here(schedule_.rank_of(0));
            done[first] = std::max(done[first], done[behind]) +
                          elements_.table * (together ? times_.local_tie : times_.remote_tie);
        }
        return *std::max_element(done.begin(), done.end());
    }

    void summarize(Prediction& p) const {
        const double tokens = static_cast<double>(spec_.train.global_batch * spec_.train.seq_len);
        double bubble = 0, exposed = 0;
        for (const RankPrediction& r : p.ranks) {
            bubble += r.bubble;
            exposed += r.exchange + r.messages + r.reduction;
        }
        const double count = static_cast<double>(p.ranks.size());
        p.model_flops = config::flops_per_token(spec_.model, spec_.train.seq_len) * tokens;
        if (p.step <= 0) return;
        p.bubble = bubble / count / p.step;
        p.exposed = exposed / count / p.step;
        p.tokens_per_s = tokens / p.step;
        const double devices = static_cast<double>(spec_.parallel.tp * spec_.parallel.pp * spec_.parallel.dp);
        if (peak_ > 0) p.mfu = p.model_flops / p.step / devices / peak_;
    }

    const config::JobSpec& spec_;
    const Schedule& schedule_;
    const config::ModelTimes& times_;
    double peak_;
    StageTimes stages_;
    PartElements elements_;
};

}  // namespace

Prediction predict(const config::JobSpec& spec, const Schedule& schedule,
                   const std::vector<schedule::Program>& programs, const config::ModelTimes& times,
                   double peak) {
    Predictor predictor(spec, schedule, times, peak);
    schedule::Durations silent = predictor.durations();
    silent.transfer = 0;
    return predictor.finish(schedule::simulate(schedule, programs, predictor.durations()),
                            schedule::simulate(schedule, programs, silent));
}

Prediction predict(const config::JobSpec& spec, const Schedule& schedule, const config::ModelTimes& times,
                   double peak) {
    Predictor predictor(spec, schedule, times, peak);
    schedule::Durations silent = predictor.durations();
    silent.transfer = 0;
    return predictor.finish(schedule::simulate(schedule, predictor.durations()),
                            schedule::simulate(schedule, silent));
}

}  // namespace escalier::plan
