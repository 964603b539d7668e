#include "plan_layout.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "config/layout.h"
#include "counted_text.h"
#include "plan/balance.h"
#include "plan/prediction.h"
#include "plan/stage_times.h"
#include "plan_time.h"

namespace escalier::apps {

namespace {

class Comparison {
 public:
    Comparison(const config::JobSpec& spec, const schedule::Schedule& schedule,
               const config::ModelTimes& times)
        : spec_(spec), schedule_(schedule), times_(times), last_(schedule.stages() - 1) {}

    LaidOut of(std::vector<std::int64_t> layers) const {
        LaidOut out;
        for (int stage = 0; stage <= last_; ++stage)
            out.slowest_stage = std::max(out.slowest_stage, seconds(stage, layers[at(stage)], own(stage)));
        config::JobSpec spec = spec_;
        spec.pipeline.layers_per_stage = layers;
        out.step = plan::predict(spec, schedule_, times_, 0).step;
        out.layers = std::move(layers);
        return out;
    }

    std::vector<std::int64_t> balanced() const {
        plan::BalanceProblem problem;
        problem.num_layers = spec_.model.num_layers;
        problem.stages = schedule_.stages();
        for (int stage = 0; stage <= last_; ++stage) problem.choices.push_back({own(stage)});
        problem.seconds = [&](int stage, std::int64_t layers, config::Recompute recompute) {
            return seconds(stage, layers, recompute);
        };
        return plan::balance(problem).layers;
    }

 private:
    static std::size_t at(int stage) { return static_cast<std::size_t>(stage); }

    config::Recompute own(int stage) const { return spec_.train.recompute[at(stage)]; }

    double seconds(int stage, std::int64_t layers, config::Recompute recompute) const {
        return plan::stage_seconds(times_, layers, stage == 0, stage == last_, recompute,
                                   schedule_.has_split_backward());
    }

    const config::JobSpec& spec_;
    const schedule::Schedule& schedule_;
    const config::ModelTimes& times_;
    const int last_;
};

std::string against_even(const LaidOut& laid_out, const LaidOut& even) {
    const double shorter = even.step > 0 ? 1 - laid_out.step / even.step : 0;
    return fmt::format("slowest stage {} against {} even, step {:.1f} % {}",
                       seconds_text(laid_out.slowest_stage), seconds_text(even.slowest_stage),
                       100 * std::abs(shorter), shorter < 0 ? "longer" : "shorter");
}

}  // namespace

std::string layers_text(const std::vector<std::int64_t>& layers) {
    constexpr std::size_t most_listed = 8;
    if (layers.size() <= most_listed) return fmt::format("[{}]", fmt::join(layers, ", "));
    return counted_text(layers, [](std::int64_t n) { return std::to_string(n); });
}

LayoutGain layout_gain(const config::JobSpec& spec, const schedule::Schedule& schedule,
                       const config::ModelTimes& times) {
    const Comparison comparison(spec, schedule, times);
    LayoutGain gain;
    gain.even = comparison.of(config::even_layout(spec.model.num_layers, schedule.stages()));
    gain.own = comparison.of(spec.pipeline.layers_per_stage);
    if (spec.model.num_layers <= plan::most_balanced_layers)
        gain.balanced = comparison.of(comparison.balanced());
    return gain;
}

std::string layout_lines(const LayoutGain& gain) {
    if (gain.own.layers.size() < 2) return "";
    const bool even = gain.own.layers == gain.even.layers;
    const bool best = gain.balanced && gain.balanced->layers == gain.own.layers;
    std::string text = "layout     " + layers_text(gain.own.layers);
    if (even)
        text += best ? ", even, and balanced by these times too" : ", even";
    else
        text += (best ? ", balanced by these times: " : ": ") + against_even(gain.own, gain.even);
    text += "\n";
    if (gain.balanced && !best)
        text += "           " + layers_text(gain.balanced->layers) +
                " would be balanced by these times: " + against_even(*gain.balanced, gain.even) + "\n";
    return text;
}

nlohmann::ordered_json layout_json(const LayoutGain& gain) {
    const auto entry = [](const LaidOut& laid_out) {
        return nlohmann::ordered_json{{"layers", laid_out.layers},
                                      {"slowest_stage_s", laid_out.slowest_stage},
                                      {"step_s", laid_out.step}};
    };
    nlohmann::ordered_json json = {{"own", entry(gain.own)}, {"even", entry(gain.even)}};
    json["balanced"] = gain.balanced ? entry(*gain.balanced) : nlohmann::ordered_json(nullptr);
    return json;
}

}  // namespace escalier::apps
