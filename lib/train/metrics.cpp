#include "train/metrics.h"

#include <spdlog/fmt/fmt.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "core/clock.h"
#include "core/text.h"
#include "train/memory_report.h"
#include "train/run_directory.h"

namespace escalier::train {

namespace {

void write_line(std::ofstream& out, const std::string& path, const nlohmann::ordered_json& object) {
    out << object.dump() << '\n' << std::flush;
    require_written(out, path);
}

double milliseconds(double seconds) {
    return 1e3 * seconds;
}

}  // namespace

double mfu(const StepReport& r) {
    return r.peak_flops > 0 ? r.model_flops / r.seconds / r.peak_flops
                            : std::numeric_limits<double>::quiet_NaN();
}

double bubble_share(const std::vector<RankSplit>& ranks) {
    double sum = 0;
    for (const RankSplit& rank : ranks) sum += rank.step > 0 ? rank.bubble / rank.step : 0;
    return ranks.empty() ? 0 : sum / static_cast<double>(ranks.size());
}

std::string clock_text(double seconds) {
    const auto whole = static_cast<std::int64_t>(seconds + 0.5);
    if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string step_line(const StepReport& r) {
    const std::size_t width = std::to_string(r.steps).size();
    const std::string share = r.peak_flops > 0 ? fmt::format(" | mfu {:.1f} %", 100 * mfu(r)) : "";
    return fmt::format(
        "step {:>{}}/{} | loss {:.6f} | norm {:.4f} | lr {:.2e} | {:.1f} ms | {} tok/s | bubble {:.1f} %{}{}",
        r.step, width, r.steps, r.loss, r.grad_norm, r.lr, milliseconds(r.seconds),
        grouped(static_cast<std::int64_t>(static_cast<double>(r.step_tokens) / r.seconds)),
        100 * bubble_share(r.ranks), share, r.skipped ? " | skipped" : "");
}

std::string split_table(const std::vector<RankSplit>& ranks) {
    std::string text = "rank   step ms  compute  communication  bubble  reduction  optimizer  data wait";
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        const RankSplit& s = ranks[rank];
        const auto share = [&](double part) { return 100 * part / s.step; };
        text += fmt::format(
            "\n{:>4}  {:>8.1f}  {:>5.1f} %  {:>11.1f} %  {:>4.1f} %  {:>7.1f} %  {:>7.1f} %  {:>7.1f} %",
            rank, milliseconds(s.step), share(s.compute), share(s.exposed_communication), share(s.bubble),
            share(s.reduction), share(s.optimizer), share(s.data_wait));
    }
    return text;
}

std::string bubble_table(const pipeline::Bubble& b) {
    const auto percent = [](double share) { return 100 * share; };
    return fmt::format(
        "idle share of the pipeline, (makespan - busy) / makespan, mean over its ranks and the last {} "
        "steps:\n"
        "  in theory  {:5.1f} %  this schedule on equal stages, messages for nothing\n"
        "  simulated  {:5.1f} %  each stage at its measured mean F, I, W: {:+.1f} imbalance between the "
        "stages\n"
        "  measured   {:5.1f} %  {:+.1f} stragglers (actions that took longer or shorter than their stage's "
        "mean),\n"
        "                      {:+.1f} communication (messages, and starting them)\n"
        "a replay of the recorded actions takes {:.1f} ms, measured {:.1f} ms ({:+.1f} %)",
        b.steps, percent(b.theory), percent(b.simulated), percent(b.imbalance()), percent(b.measured),
        percent(b.stragglers()), percent(b.communication()), milliseconds(b.replayed_makespan),
        milliseconds(b.measured_makespan), percent(b.replayed_makespan / b.measured_makespan - 1));
}

void MetricsFile::start(const RunStart& start) {
    nlohmann::ordered_json object = {{"event", "start"},
                                     {"time", unix_seconds()},
                                     {"grid", start.grid},
                                     {"parameters", start.parameters},
                                     {"predicted_bubble", start.predicted_bubble},
                                     {"first_step", start.first_step},
                                     {"steps", start.steps}};
    object["resumed_from"] =
        start.resumed_from.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(start.resumed_from);
    nlohmann::ordered_json memory = nlohmann::ordered_json::array();
    for (const std::vector<device::ArenaSize>& rank : start.arenas)
        memory.push_back({{"arena_bytes", arena_bytes(rank)}, {"arenas", arenas_json(rank)}});
    object["memory"] = std::move(memory);
    write_line(out_, path_, object);
}

void MetricsFile::step(const StepReport& r) {
    nlohmann::ordered_json object = {{"event", "step"},
                                     {"step", r.step},
                                     {"time", unix_seconds()},
                                     {"loss", r.loss},
                                     {"lr", r.lr},
                                     {"grad_norm", r.grad_norm},
                                     {"step_ms", milliseconds(r.seconds)},
                                     {"tokens_per_s", static_cast<double>(r.step_tokens) / r.seconds},
                                     {"model_flops_per_s", r.model_flops / r.seconds},
                                     {"mfu", mfu(r)},
                                     {"consumed_samples", r.consumed_samples},
                                     {"consumed_tokens", r.consumed_tokens},
                                     {"bubble", bubble_share(r.ranks)},
                                     {"skipped", r.skipped ? 1 : 0}};
    nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
    for (const RankSplit& s : r.ranks)
        ranks.push_back({{"step_ms", milliseconds(s.step)},
                         {"compute_ms", milliseconds(s.compute)},
                         {"exposed_communication_ms", milliseconds(s.exposed_communication)},
                         {"bubble_ms", milliseconds(s.bubble)},
                         {"reduction_ms", milliseconds(s.reduction)},
                         {"optimizer_ms", milliseconds(s.optimizer)},
                         {"data_wait_ms", milliseconds(s.data_wait)}});
    object["ranks"] = std::move(ranks);
    nlohmann::ordered_json stages = nlohmann::ordered_json::array();
    for (const pipeline::StageTimes& s : r.stages)
        stages.push_back({{"stage", s.stage},
                          {"copy", s.copy},
                          {"pp_rank", s.pp_rank},
                          {"forward_ms", milliseconds(s.forward)},
                          {"backward_ms", milliseconds(s.backward)},
                          {"input_gradient_ms", milliseconds(s.input_gradient)},
                          {"weight_gradient_ms", milliseconds(s.weight_gradient)}});
    object["stages"] = std::move(stages);
    write_line(out_, path_, object);
}

void MetricsFile::eval(std::int64_t step, double loss, std::int64_t targets, double seconds) {
    write_line(out_, path_,
               {{"event", "eval"},
                {"step", step},
                {"time", unix_seconds()},
                {"loss", loss},
                {"targets", targets},
                {"eval_ms", milliseconds(seconds)}});
}

void MetricsFile::checkpoint(std::int64_t step, std::uint64_t bytes, double seconds, double stalled_seconds) {
    write_line(out_, path_,
               {{"event", "checkpoint"},
                {"step", step},
                {"time", unix_seconds()},
                {"bytes", bytes},
                {"save_ms", milliseconds(seconds)},
                {"stall_ms", milliseconds(stalled_seconds)}});
}

void MetricsFile::warning(std::int64_t step, const std::string& text) {
    write_line(out_, path_, {{"event", "warning"}, {"step", step}, {"time", unix_seconds()}, {"text", text}});
}

void MetricsFile::bubble(const pipeline::Bubble& b) {
    write_line(out_, path_,
               {{"event", "bubble"},
                {"time", unix_seconds()},
                {"steps", b.steps},
                {"theory", b.theory},
                {"simulated", b.simulated},
                {"measured", b.measured},
                {"imbalance", b.imbalance()},
                {"stragglers", b.stragglers()},
                {"communication", b.communication()},
                {"replayed_ms", milliseconds(b.replayed_makespan)},
                {"measured_ms", milliseconds(b.measured_makespan)}});
}

void MetricsFile::end(int exit_code, const std::string& reason,
                      const std::vector<std::int64_t>& peak_resident) {
    write_line(out_, path_,
               {{"event", "end"},
                {"time", unix_seconds()},
                {"exit_code", exit_code},
                {"reason", reason},
                {"peak_resident_bytes", peak_resident}});
}

}  // namespace escalier::train
