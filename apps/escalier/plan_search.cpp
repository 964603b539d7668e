#include "plan_search.h"

#include <spdlog/fmt/fmt.h>

#include <cmath>

#include "core/clock.h"
#include "core/text.h"
#include "counted_text.h"
#include "plan_layout.h"
#include "plan_time.h"
#include "schedule/lower.h"
#include "text_table.h"
#include "train/schedule_rules.h"

namespace escalier::apps {

namespace {

double gib(double bytes) {
    return bytes / (1 << 30);
}

std::string recompute_text(const config::JobSpec& spec) {
    return counted_text(spec.train.recompute, [](config::Recompute kind) {
        return std::string(kind == config::Recompute::full        ? "full"
                           : kind == config::Recompute::attention ? "attention"
                                                                  : "none");
    });
}

Row row(const std::string& place, const config::JobSpec& spec, const plan::Prediction& p, double bytes) {
    return {place,
            std::to_string(spec.parallel.tp),
            std::to_string(spec.parallel.pp),
            std::to_string(spec.parallel.dp),
            spec.pipeline.schedule,
            std::to_string(spec.pipeline.chunks.value_or(1)),
            std::to_string(spec.train.micro_batch),
            std::to_string(spec.micro_batches()),
            seconds_text(p.step),
            percent(p.mfu),
            percent(p.bubble),
            percent(p.exposed),
            fmt::format("{:.1f}", gib(bytes)),
            recompute_text(spec),
            layers_text(spec.pipeline.layers_per_stage)};
}

std::string difference(double seconds) {
    return (seconds < 0 ? "-" : "+") + seconds_text(std::abs(seconds));
}

Row head() {
    return {"",     "tp",  "pp",     "dp",      "schedule", "chunks",    "micro-batch", "M",
            "step", "MFU", "bubble", "exposed", "GiB",      "recompute", "layers"};
}

// Why `own` is not the best: it does not fit, or which share of its step is larger.
std::string why(const SearchPage& page, const plan::SearchProblem& problem) {
    const plan::Prediction& own = page.own;
    if (page.own_bytes > problem.memory_limit)
        return fmt::format("The job's own grid does not fit: {:.1f} GiB a rank, and there are {:.1f}.\n",
                           gib(page.own_bytes), gib(problem.memory_limit));
    const plan::Found& best = page.result.best.front();
    const double slower = own.step / best.prediction.step - 1;
    if (slower <= 1e-9) return "The job's own grid is the best of all.\n";
    const auto seconds_more = [&](double mine, double theirs) {
        return mine * own.step - theirs * best.prediction.step;
    };
    const double bubble = seconds_more(own.bubble, best.prediction.bubble),
                 exposed = seconds_more(own.exposed, best.prediction.exposed),
                 all = own.step - best.prediction.step;
    return fmt::format(
        "The job's own grid takes {:.1f} % longer, {}: {} idle in the bubble, {} in exposed communication, "
        "{} in "
        "computing and updating.\n",
        100 * slower, seconds_text(all), difference(bubble), difference(exposed),
        difference(all - bubble - exposed));
}

}  // namespace

SearchPage run_search(const plan::SearchProblem& problem) {
    SearchPage page;
    const double start = now_seconds();
    page.result = plan::search(problem);
    page.seconds = now_seconds() - start;
    page.own_spec = problem.spec;
    const schedule::Schedule schedule = train::make_schedule(page.own_spec);
    page.own = plan::predict(page.own_spec, schedule, plan::roofline_times(page.own_spec, problem.hardware),
                             problem.hardware.peak_flops(page.own_spec.train.dtype));
    return page;
}

std::string search_page(const SearchPage& page, const plan::SearchProblem& problem) {
    const plan::SearchResult& found = page.result;
    std::string text = fmt::format(
        "search     {} candidates on {} ranks of {}, {} too large for {:.1f} GiB, {} simulated, {:.1f} s{}\n",
        grouped(static_cast<std::int64_t>(found.candidates)), grouped(problem.ranks), problem.hardware.name,
        grouped(static_cast<std::int64_t>(found.too_large)), gib(problem.memory_limit),
        grouped(static_cast<std::int64_t>(found.simulated)), page.seconds,
        found.complete ? "" : "; stopped early: others may be as fast");
    std::vector<Row> rows = {head()};
    for (std::size_t i = 0; i < found.best.size(); ++i)
        rows.push_back(
            row(std::to_string(i + 1), found.best[i].spec, found.best[i].prediction, found.best[i].bytes));
    rows.push_back(row("job", page.own_spec, page.own, page.own_bytes));
    text += text_table(rows);
    if (found.best.empty())
        return text + "Nothing fits. More ranks, a smaller model or shorter samples would.\n";
    return text + why(page, problem);
}

nlohmann::ordered_json search_json(const SearchPage& page, const plan::SearchProblem& problem) {
    const auto entry = [](const config::JobSpec& spec, const plan::Prediction& p, double bytes) {
        nlohmann::ordered_json out = {{"tp", spec.parallel.tp},
                                      {"pp", spec.parallel.pp},
                                      {"dp", spec.parallel.dp},
                                      {"schedule", spec.pipeline.schedule},
                                      {"chunks", spec.pipeline.chunks.value_or(1)},
                                      {"micro_batch", spec.train.micro_batch},
                                      {"micro_batches", spec.micro_batches()},
                                      {"layers", spec.pipeline.layers_per_stage},
                                      {"recompute", recompute_text(spec)},
                                      {"step_s", p.step},
                                      {"mfu", p.mfu},
                                      {"tokens_per_s", p.tokens_per_s},
                                      {"bubble", p.bubble},
                                      {"exposed_communication", p.exposed},
                                      {"bytes", bytes}};
        return out;
    };
    nlohmann::ordered_json best = nlohmann::ordered_json::array();
    for (const plan::Found& found : page.result.best)
        best.push_back(entry(found.spec, found.prediction, found.bytes));
    return {{"ranks", problem.ranks},
            {"hardware", problem.hardware.name},
            {"limit_bytes", problem.memory_limit},
            {"candidates", page.result.candidates},
            {"too_large", page.result.too_large},
            {"simulated", page.result.simulated},
            {"complete", page.result.complete},
            {"seconds", page.seconds},
            {"best", best},
            {"job", entry(page.own_spec, page.own, page.own_bytes)}};
}

}  // namespace escalier::apps
