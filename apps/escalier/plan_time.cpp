#include "plan_time.h"

#include <spdlog/fmt/fmt.h>

#include "core/text.h"
#include "plan/part_times.h"
#include "plan/stage_times.h"
#include "text_table.h"

namespace escalier::apps {

namespace {

constexpr std::size_t most_rows = 32;

std::string milliseconds(double seconds) {
    return fmt::format("{:.3f}", 1e3 * seconds);
}

std::string share(double part, double whole) {
    return fmt::format("{:.1f} %", whole > 0 ? 100 * part / whole : 0.0);
}

// run.clock sleep: layers alone take time, and a full recompute is one more forward pass.
config::ModelTimes set_times(const config::RunConfig& run) {
    const double pass = 1e-3 * run.layer_ms;
    config::ModelTimes times;
    times.layer = {pass, 2 * pass, pass, pass, 0, 0};
    times.layer_again = pass;
    return times;
}

// What a run does besides training steps, or does otherwise than the times say.
std::vector<std::string> left_out(const TimeSource& source, const config::JobSpec& spec) {
    std::vector<std::string> out;
    const auto every = [&](const char* what, std::int64_t steps) {
        if (steps > 0) out.push_back(fmt::format("{} every {} step{}", what, steps, steps == 1 ? "" : "s"));
    };
    every("validation", spec.eval.every);
    every("checkpoints", spec.checkpoint.every);
    if (source.set(spec)) out.emplace_back("messages, sums between ranks and the optimizer");
    if (spec.run.device != "cuda" || source.profile) return out;
    if (spec.run.share_gpu) out.emplace_back("waiting for a GPU that ranks share");
    if (spec.run.comm == "staged") out.emplace_back("the way of messages through host memory");
    return out;
}

}  // namespace

std::string seconds_text(double seconds) {
    return seconds >= 1 ? fmt::format("{:.3f} s", seconds) : fmt::format("{:.2f} ms", 1e3 * seconds);
}

void add_time_options(CLI::App& command, TimeArguments& arguments, CLI::Option* measure) {
    CLI::Option* gpu =
        command.add_option("--gpu", arguments.gpu, "predict for this device: a100, b200, cpu, h100 or h200")
            ->excludes(measure);
    command
        .add_option("--hardware", arguments.hardware,
                    "the same, described in a file like configs/hardware/h100.yaml")
        ->excludes(gpu)
        ->excludes(measure);
    command
        .add_option("--profile", arguments.profile,
                    "predict with the times that --measure found, a YAML file")
        ->excludes(measure);
}

config::ModelTimes TimeSource::times(const config::JobSpec& spec) const {
    if (set(spec)) return set_times(spec.run);
    if (!profile) return plan::roofline_times(spec, hardware);
    config::require_same_work(*profile, spec, profile_path);
    return profile->times;
}

double TimeSource::peak(const config::JobSpec& spec) const {
    constexpr double tera = 1e12;
    if (spec.log.peak_tflops) return tera * static_cast<double>(*spec.log.peak_tflops);
    return profile || set(spec) ? 0 : hardware.peak_flops(plan::planned_dtype(spec, hardware));
}

std::string TimeSource::text(const config::JobSpec& spec) const {
    if (set(spec)) return fmt::format("set by run.layer_ms, {:g} ms, for run.clock sleep", spec.run.layer_ms);
    if (profile)
        return fmt::format("measured ({}): {}, {} rank{} at once, {} thread{} each", profile_path,
                           profile->machine.processor, profile->machine.ranks,
                           profile->machine.ranks == 1 ? "" : "s", profile->machine.threads,
                           profile->machine.threads == 1 ? "" : "s");
    return fmt::format("roofline of {} ({}): {}", hardware_name, hardware.name, hardware.source);
}

TimeSource read_time_source(const TimeArguments& arguments, const std::string& device) {
    TimeSource source;
    source.named = arguments.names_machine() || !arguments.profile.empty();
    if (!arguments.hardware.empty()) {
        source.hardware_name = arguments.hardware;
        source.hardware =
            plan::parse_hardware(config::read_yaml_file(arguments.hardware, config::hardware_kind));
    } else {
        source.hardware_name = !arguments.gpu.empty() ? arguments.gpu : device == "cpu" ? "cpu" : "h100";
        source.hardware = plan::built_in_hardware(source.hardware_name);
    }
    if (!arguments.profile.empty()) {
        source.profile_path = arguments.profile;
        source.profile =
            config::parse_profile(config::read_yaml_file(arguments.profile, config::profile_kind));
    }
    return source;
}

PlannedTime plan_time(const TimeSource& source, const config::JobSpec& spec,
                      const schedule::Schedule& schedule, const std::vector<schedule::Program>& programs) {
    const config::ModelTimes times = source.times(spec);
    const bool split = schedule.has_split_backward();
    PlannedTime out;
    out.prediction = plan::predict(spec, schedule, programs, times, source.peak(spec));
    out.stages = plan::stage_times(spec, times, split).durations;
    out.layout = layout_gain(spec, schedule, times);
    return out;
}

std::string time_page(const TimeSource& source, const config::JobSpec& spec, const PlannedTime& time) {
    const plan::Prediction& p = time.prediction;
    std::vector<Row> rows = {{"pp rank", "F ms", "I ms", "W ms", "busy", "tp sums", "bubble", "messages",
                              "reduction", "optimizer ms", ""}};
    for (std::size_t rank = 0; rank < p.ranks.size(); ++rank) {
        if (p.ranks.size() > most_rows && rank == most_rows / 2) {
            Row gap(rows[0].size());
            gap[0] = "...";
            rows.push_back(gap);
            rank = p.ranks.size() - most_rows / 2;
        }
        const plan::RankPrediction& r = p.ranks[rank];
        rows.push_back({std::to_string(rank), milliseconds(r.forward), milliseconds(r.input_gradient),
                        milliseconds(r.weight_gradient), share(r.busy - r.exchange, p.step),
                        share(r.exchange, p.step), share(r.bubble, p.step), share(r.messages, p.step),
                        share(r.reduction, p.step), milliseconds(r.optimizer), ""});
    }
    std::string text = "time       " + source.text(spec) + "\n" + text_table(rows);
    text += fmt::format("step       {}: data {}, pipeline {}, sums of gradients {}, norm {}, optimizer {}\n",
                        seconds_text(p.step), seconds_text(p.data), seconds_text(p.pipeline),
                        seconds_text(p.reduction), seconds_text(p.norm), seconds_text(p.optimizer));
    text += fmt::format("bubble     {:.1f} % of the step; exposed communication {:.1f} %\n", 100 * p.bubble,
                        100 * p.exposed);
    text += fmt::format("speed      {} tokens/s", grouped(static_cast<std::int64_t>(p.tokens_per_s)));
    if (p.mfu > 0)
        text += fmt::format(
            ", MFU {:.1f} % of {:g} TFLOP/s (model FLOPs, causal half of attention, no recompute)",
            100 * p.mfu, source.peak(spec) / 1e12);
    text += "\n";
    if (source.profile && source.profile->times.message <= 0 && spec.parallel.pp * spec.parallel.dp > 1)
        text += fmt::format(
            "note       one tensor group measured {}, so messages and sums between ranks count as nothing; "
            "measure with mpirun -n {} or more\n",
            source.profile_path, 2 * spec.parallel.tp);
    text += layout_lines(time.layout);
    const std::vector<std::string> missing = left_out(source, spec);
    if (!missing.empty()) text += fmt::format("left out   {}\n", fmt::join(missing, "; "));
    return text;
}

nlohmann::ordered_json time_json(const TimeSource& source, const config::JobSpec& spec,
                                 const PlannedTime& time) {
    const plan::Prediction& p = time.prediction;
    nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
    for (const plan::RankPrediction& r : p.ranks)
        ranks.push_back({{"forward_s", r.forward},
                         {"input_gradient_s", r.input_gradient},
                         {"weight_gradient_s", r.weight_gradient},
                         {"busy_s", r.busy},
                         {"tensor_sums_s", r.exchange},
                         {"bubble_s", r.bubble},
                         {"messages_s", r.messages},
                         {"reduction_s", r.reduction},
                         {"optimizer_s", r.optimizer}});
    nlohmann::ordered_json out = {{"source", source.text(spec)},
                                  {"step_s", p.step},
                                  {"data_s", p.data},
                                  {"pipeline_s", p.pipeline},
                                  {"reduction_s", p.reduction},
                                  {"norm_s", p.norm},
                                  {"optimizer_s", p.optimizer},
                                  {"bubble", p.bubble},
                                  {"exposed_communication", p.exposed},
                                  {"tokens_per_s", p.tokens_per_s},
                                  {"model_flops", p.model_flops},
                                  {"layout", layout_json(time.layout)},
                                  {"left_out", left_out(source, spec)},
                                  {"stages",
                                   {{"forward_s", time.stages.forward},
                                    {"input_gradient_s", time.stages.input_gradient},
                                    {"weight_gradient_s", time.stages.weight_gradient},
                                    {"message_s", time.stages.transfer}}},
                                  {"pipeline_ranks", ranks}};
    out["mfu"] = p.mfu > 0 ? nlohmann::ordered_json(p.mfu) : nlohmann::ordered_json(nullptr);
    return out;
}

}  // namespace escalier::apps
