#include "report/pipeline_picture.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <limits>

#include "schedule/simulate.h"
#include "schedule/svg.h"

namespace escalier::report {

namespace {

using schedule::Timeline;

constexpr double ms = 1e3;

Timeline recorded(const pipeline::RankActions& actions) {
    double first = std::numeric_limits<double>::infinity(), last = -first;
    for (const auto& row : actions)
        for (const pipeline::ActionTime& time : row) {
            first = std::min(first, time.start);
            last = std::max(last, time.end);
        }
    Timeline timeline;
    timeline.makespan = ms * std::max(0.0, last - first);
    double all_busy = 0;
    for (const auto& row : actions) {
        auto& rank = timeline.ranks.emplace_back();
        double busy = 0, begin = std::numeric_limits<double>::infinity(), end = -begin;
        bool second = false;  // of an overlapped pair, which counts once
        for (const pipeline::ActionTime& time : row) {
            rank.push_back({time.action, ms * (time.start - first), ms * (time.end - first)});
            if (!second) busy += ms * (time.end - time.start);
            second = time.action.overlaps_next;
            begin = std::min(begin, rank.back().start);
            end = std::max(end, rank.back().end);
        }
        timeline.busy.push_back(busy);
        timeline.idle.push_back(timeline.makespan > 0 ? 1 - busy / timeline.makespan : 0);
        timeline.span = std::max(timeline.span, end - begin);
        all_busy += busy;
    }
    const auto ranks = static_cast<double>(actions.size());
    if (timeline.makespan > 0) timeline.idle_share = 1 - all_busy / (ranks * timeline.makespan);
    if (timeline.span > 0) timeline.span_idle_share = 1 - all_busy / (ranks * timeline.span);
    return timeline;
}

// Mean times over all stages, in milliseconds.
schedule::Durations mean_durations(const schedule::Schedule& schedule, const pipeline::RankActions& actions) {
    using Times = pipeline::StageTimes;
    const std::vector<Times> stages = pipeline::stage_times(schedule, actions);
    const auto mean = [&](double Times::*kind) {
        double sum = 0;
        int count = 0;
        for (const Times& stage : stages) {
            sum += stage.*kind;
            count += stage.*kind > 0;
        }
        return count ? ms * sum / count : 0;
    };
    const double input = mean(&Times::input_gradient), weight = mean(&Times::weight_gradient);
    // A schedule that splits no backward has only whole ones.
    return schedule::Durations::uniform(schedule.stages(), mean(&Times::forward),
                                        input > 0 ? input : mean(&Times::backward), weight, 0);
}

}  // namespace

std::string pipeline_picture(const schedule::Schedule& schedule,
                             const std::vector<schedule::Program>& programs,
                             const pipeline::RankActions& actions, std::int64_t step) {
    const Timeline ideal = schedule::simulate(schedule, programs, mean_durations(schedule, actions));
    return schedule::to_svg(
        schedule,
        {{fmt::format("as step {} really ran", step), recorded(actions)},
         {"ideal: every stage as fast as their mean in that step, messages for nothing", ideal}},
        "ms", "times in milliseconds");
}

}  // namespace escalier::report
