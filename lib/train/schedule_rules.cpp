#include "train/schedule_rules.h"

#include <algorithm>
#include <memory>
#include <sstream>
#include <utility>

#include "core/check.h"
#include "core/error.h"
#include "core/mapped_file.h"
#include "plan/stage_memory.h"
#include "schedule/csv.h"
#include "schedule/generators.h"
#include "schedule/prove.h"
#include "train/stage_choice.h"
#include "train/stage_costs.h"

namespace escalier::train {

namespace {

using config::PipelineConfig;
using config::ScheduleAnswer;

schedule::GenerateOptions options_of(const PipelineConfig& pipeline, std::int64_t pp,
                                     std::int64_t micro_batches) {
    const schedule::Kind* kind = schedule::find_kind(pipeline.schedule);
    schedule::GenerateOptions options;
    options.kind = pipeline.schedule;
    options.pp = static_cast<int>(pp);
    options.chunks = static_cast<int>(pipeline.chunks.value_or(kind ? kind->default_chunks : 1));
    options.micro_batches = static_cast<int>(micro_batches);
    options.backward = schedule::parse_backward_order(pipeline.backward);
    options.group = static_cast<int>(pipeline.group.value_or(0));
    return options;
}

// The key whose change mends what the kind finds wrong.
std::string key_at_fault(const schedule::Kind& kind, const schedule::GenerateOptions& options) {
    const auto mended = [&](auto&& change) {
        schedule::GenerateOptions other = options;
        change(other);
        return schedule::size_problem(kind, other).empty();
    };
    if (mended([](auto& o) { o.backward = schedule::BackwardOrder::fifo; })) return "pipeline.backward";
    if (mended([](auto& o) { o.group = 0; })) return "pipeline.group";
    if (mended([&](auto& o) { o.chunks = kind.default_chunks; })) return "pipeline.chunks";
    if (mended([](auto& o) { ++o.pp; })) return "parallel.pp";
    if (mended([](auto& o) { ++o.micro_batches; })) return "train.global_batch";
    return "pipeline.schedule";
}

ScheduleAnswer judge_kind(const PipelineConfig& pipeline, std::int64_t pp,
                          std::optional<std::int64_t> micro_batches) {
    const schedule::Kind* kind = schedule::find_kind(pipeline.schedule);
    ESCALIER_CHECK(kind != nullptr, "a schedule that the job spec knows must have a generator");
    // Where the micro-batches are open, what depends on them is not judged: enough for every kind.
    const schedule::GenerateOptions options =
        options_of(pipeline, pp, micro_batches.value_or(std::max(2 * pp, pipeline.group.value_or(0))));
    ScheduleAnswer answer;
    answer.chunks = options.chunks;
    answer.stages = pp * options.chunks / kind->copies;
    const std::string problem = schedule::size_problem(*kind, options);
    if (!problem.empty()) {
        answer.key = key_at_fault(*kind, options);
        answer.problem = "schedule " + pipeline.schedule + ": " + problem;
    }
    return answer;
}

schedule::Schedule read_schedule(const std::string& text, const std::string& path) {
    std::istringstream in(text);
    return schedule::from_csv(in, path);
}

std::string size_difference(const schedule::Schedule& schedule, const PipelineConfig& pipeline,
                            std::int64_t pp, std::optional<std::int64_t> micro_batches) {
    const auto number = [](std::int64_t value) { return std::to_string(value); };
    const auto counted = [](std::int64_t value, const std::string& noun) {
        return std::to_string(value) + " " + noun + (value == 1 ? "" : noun == "micro-batch" ? "es" : "s");
    };
    if (schedule.pp != pp)
        return "it has " + counted(schedule.pp, "line") + ", one per pipeline rank, but parallel.pp is " +
               number(pp) + "; set parallel.pp to " + number(schedule.pp) + ", or give a file with " +
               number(pp) + " lines";
    if (pipeline.chunks.value_or(schedule.chunks) != schedule.chunks)
        return "it has " + counted(schedule.chunks, "stage") + " per line, but pipeline.chunks is " +
               number(*pipeline.chunks) + "; set pipeline.chunks to " + number(schedule.chunks) + " or auto";
    if (micro_batches.value_or(schedule.micro_batches) != schedule.micro_batches)
        return "it has " + counted(schedule.micro_batches, "micro-batch") + ", but the job has " +
               number(*micro_batches) +
               " (global_batch / (micro_batch x dp)); change train.global_batch or train.micro_batch, or "
               "give "
               "a file with " +
               number(*micro_batches) + " micro-batches";
    return "";
}

ScheduleAnswer judge_file(const PipelineConfig& pipeline, std::int64_t pp,
                          std::optional<std::int64_t> micro_batches, std::string text) {
    ScheduleAnswer answer;
    answer.file_text = std::move(text);
    answer.chunks = pipeline.chunks.value_or(1);
    answer.stages = pp * answer.chunks;
    answer.key = "pipeline.file";
    if (pipeline.backward != "fifo") {
        answer.key = "pipeline.backward";
        answer.problem = "found " + pipeline.backward +
                         ", but schedule csv takes its order from the file; remove pipeline.backward";
        return answer;
    }
    if (pipeline.group) {
        answer.key = "pipeline.group";
        answer.problem = "found " + std::to_string(*pipeline.group) +
                         ", but schedule csv takes its order from the file; remove pipeline.group";
        return answer;
    }
    try {
        const schedule::Schedule schedule = read_schedule(answer.file_text, pipeline.file);
        answer.chunks = schedule.chunks;
        answer.stages = schedule.stages();
        answer.problem = size_difference(schedule, pipeline, pp, micro_batches);
        if (!answer.problem.empty())
            answer.problem = pipeline.file + " does not fit: " + answer.problem;
        else
            schedule::prove(schedule);
    } catch (const ConfigError& error) {
        answer.problem = error.what();
    }
    return answer;
}

}  // namespace

std::string read_schedule_file(const std::string& path) {
    try {
        const MappedFile file(path);
        return {file.bytes().begin(), file.bytes().end()};
    } catch (const IoError& error) {
        throw IoError::read("pipeline.file " + std::string(error.what()) +
                            "; give the path of a schedule, one line per pipeline rank, cells such as 0F3");
    }
}

config::ScheduleRules schedule_rules(std::function<std::string(const std::string& path)> read) {
    return [read = std::move(read)](const PipelineConfig& pipeline, std::int64_t pp,
                                    std::optional<std::int64_t> micro_batches) {
        ScheduleAnswer answer =
            pipeline.schedule != "csv"
                ? judge_kind(pipeline, pp, micro_batches)
                : judge_file(pipeline, pp, micro_batches,
                             pipeline.file_text.empty() ? read(pipeline.file) : pipeline.file_text);
        answer.choose_stages = choose_stages;
        return answer;
    };
}

schedule::Schedule make_schedule(const config::JobSpec& spec) {
    if (spec.pipeline.schedule == "csv") return read_schedule(spec.pipeline.file_text, spec.pipeline.file);
    schedule::GenerateOptions options = options_of(spec.pipeline, spec.parallel.pp, spec.micro_batches());
    if (schedule::require_kind(options.kind).has_costs)
        options.costs = std::make_shared<const schedule::StageCosts>(
            schedule::StageCosts{predicted_durations(spec), plan::activation_bytes(spec), {}});
    return schedule::generate(options);
}

std::string schedule_text(const config::JobSpec& spec) {
    const PipelineConfig& pipeline = spec.pipeline;
    std::string text = pipeline.schedule == "csv" ? pipeline.file : pipeline.schedule;
    if (pipeline.backward != "fifo") text += " " + pipeline.backward;
    const std::int64_t chunks = pipeline.chunks.value_or(1);
    if (chunks > 1) text += ", " + std::to_string(chunks) + " chunks per rank";
    if (pipeline.group) text += ", group " + std::to_string(*pipeline.group);
    return text;
}

}  // namespace escalier::train
