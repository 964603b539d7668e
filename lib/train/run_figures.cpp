#include "train/run_figures.h"

#include <sys/resource.h>

#include "core/clock.h"

namespace escalier::train {

namespace {

double peak_resident_bytes() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

double tokens_per_second(const StepReport& report) {
    return static_cast<double>(report.step_tokens) / report.seconds;
}

}  // namespace

RunFigures::RunFigures(const config::JobSpec& spec) : config_(spec.log) {
    if (config_.prometheus_port > 0)
        endpoint_.emplace(static_cast<int>(config_.prometheus_port), spec.run.name);
}

void RunFigures::open(const std::string& folder, std::int64_t first_step) {
    if (config_.tensorboard) events_.emplace(folder, first_step);
}

void RunFigures::step(const StepReport& r) {
    if (endpoint_) show(r);
    if (!events_) return;
    constexpr double gib = 1 << 30;
    events_->write(r.step, unix_seconds(),
                   {{"loss", r.loss},
                    {"grad_norm", r.grad_norm},
                    {"lr", r.lr},
                    {"throughput/tokens_per_s", tokens_per_second(r)},
                    {"throughput/step_ms", 1e3 * r.seconds},
                    {"throughput/mfu", mfu(r)},
                    {"pipeline/bubble", bubble_share(r.ranks)},
                    {"memory/peak_resident_gib_of_rank_0", peak_resident_bytes() / gib}});
}

void RunFigures::eval(std::int64_t step, double loss) {
    if (events_) events_->write(step, unix_seconds(), {{"validation/loss", loss}});
    if (endpoint_) endpoint_->set("validation_loss", "Mean loss of the validation set", loss);
}

void RunFigures::checkpoint(std::int64_t step) {
    if (endpoint_)
        endpoint_->set("checkpoint_step", "Step of the newest checkpoint", static_cast<double>(step));
}

void RunFigures::show(const StepReport& r) {
    const auto set = [&](const char* name, const char* help, double value) {
        endpoint_->set(name, help, value);
    };
    set("step", "Steps done", static_cast<double>(r.step));
    set("steps", "Steps wanted", static_cast<double>(r.steps));
    set("loss", "Loss of the last step, before its update", r.loss);
    set("grad_norm", "Norm of the gradient, before clipping", r.grad_norm);
    set("learning_rate", "Learning rate of the last step", r.lr);
    set("tokens_per_second", "Tokens of the last step by its seconds", tokens_per_second(r));
    set("step_seconds", "Seconds of the last step", r.seconds);
    set("bubble_ratio", "Share of the last step that ranks waited for a stage that still computed, mean",
        bubble_share(r.ranks));
    set("mfu_ratio", "Model FLOPs by the peak of all devices; NaN where that is not known", mfu(r));
    set("consumed_tokens", "Tokens trained on", static_cast<double>(r.consumed_tokens));
    set("peak_resident_bytes", "Most memory that was resident of rank 0", peak_resident_bytes());
    for (std::size_t rank = 0; rank < r.ranks.size(); ++rank) {
        const RankSplit& s = r.ranks[rank];
        const auto part = [&](const char* name, double seconds) {
            endpoint_->set("step_part_seconds", "Where the last step of a rank went", seconds,
                           std::to_string(rank), name);
        };
        part("compute", s.compute);
        part("exposed_communication", s.exposed_communication);
        part("bubble", s.bubble);
        part("reduction", s.reduction);
        part("optimizer", s.optimizer);
        part("data_wait", s.data_wait);
    }
}

}  // namespace escalier::train
