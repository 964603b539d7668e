#include "config/pipeline_rules.h"

#include <algorithm>
#include <utility>

#include "config/layout.h"
#include "config/rule_book.h"
#include "core/limits.h"

namespace escalier::config {

namespace {

class PipelineRules : RuleBook {
 public:
    PipelineRules(Job& job, const ScheduleRules& schedules, Problems& problems)
        : RuleBook(job, problems), schedules_(schedules) {}

    void run() {
        schedule();
        stages();
    }

 private:
    void stages() {
        const std::int64_t layers = spec_.model.num_layers;
        PipelineConfig& pipeline = spec_.pipeline;
        if (stages_ == 0) return;
        std::vector<Recompute>& recompute = spec_.train.recompute;
        require(
            !recompute.empty() || spec_.train.memory_gib > 0, {"train.recompute", "train.memory_gib"},
            "auto chooses the least that fits into train.memory_gib, which is 0 (no limit); give the GiB of "
            "a rank, or none, attention or full");
        const bool chosen = recompute.empty() || by_profile();
        if (recompute.empty() && !choose_) recompute = {Recompute::none};
        if (recompute.size() == 1) recompute.resize(static_cast<std::size_t>(stages_), recompute[0]);
        require(recompute.empty() || static_cast<std::int64_t>(recompute.size()) == stages_,
                {"train.recompute", "parallel.pp", "pipeline.chunks"},
                "has " + text(static_cast<std::int64_t>(recompute.size())) + " entries, but " +
                    stages_text() + "; give one entry for all stages or one for each");
        if (layers <= 0 || !sound({"model.num_layers"})) return;
        if (stages_ > layers) {
            refuse_many_stages(layers);
            return;
        }
        if (!sound({"pipeline.layout", "model", "train.recompute", "train.memory_gib"})) return;
        if (!pipeline.layers_per_stage.empty()) explicit_layout();
        if (!sound({"pipeline.layout"})) return;
        if (chosen && choose_) {
            choose_stages();
            return;
        }
        if (pipeline.layers_per_stage.empty()) {
            pipeline.layers_per_stage =
                pipeline.layout == "even"
                    ? even_layout(layers, stages_)
                    : balanced_layout(forward_cost(spec_.model, spec_.train.seq_len, spec_.parallel.tp),
                                      layers, recompute);
            pipeline.layout.clear();
        }
    }

    bool by_profile() const {
        const PipelineConfig& pipeline = spec_.pipeline;
        return pipeline.layers_per_stage.empty() && pipeline.layout != "even" &&
               pipeline.layout != "balanced";
    }

    void choose_stages() {
        if (!sound({"train.micro_batch", "train.global_batch", "train.seq_len", "parallel.dp"})) return;
        StageChoice choice = choose_(spec_, stages_);
        if (!choice.problem.empty()) {
            refuse({choice.key.c_str(), "train.recompute", "train.memory_gib"}, choice.problem);
            return;
        }
        spec_.pipeline.layers_per_stage = std::move(choice.layers);
        spec_.pipeline.layout.clear();
        spec_.train.recompute = std::move(choice.recompute);
    }

    void refuse_many_stages(std::int64_t layers) {
        const std::int64_t pp = spec_.parallel.pp, per_rank = stages_ / pp;
        if (per_rank == 1)
            refuse({"parallel.pp", "model.num_layers"},
                   text(pp) + " is more than model.num_layers " + text(layers) +
                       ": every stage needs a layer; parallel.pp may be at most " + text(layers));
        else
            refuse({"pipeline.chunks", "pipeline.schedule", "parallel.pp", "model.num_layers"},
                   text(per_rank) + " chunks (" + spec_.pipeline.schedule + ") x parallel.pp " + text(pp) +
                       " are " + text(stages_) + " stages, more than model.num_layers " + text(layers) +
                       ": every stage needs a layer; parallel.pp may be at most " + text(layers / per_rank) +
                       ", or take a schedule with fewer chunks");
    }

    // "parallel.pp is 4", "parallel.pp 4 x pipeline.chunks 2 makes 8 stages"
    std::string stages_text() const {
        const std::int64_t pp = spec_.parallel.pp;
        if (stages_ == pp) return "parallel.pp is " + text(pp);
        return "parallel.pp " + text(pp) + " x pipeline.chunks " + text(*spec_.pipeline.chunks) + " makes " +
               text(stages_) + " stages";
    }
    void schedule() {
        PipelineConfig& pipeline = spec_.pipeline;
        const bool from_file = pipeline.schedule == "csv";
        require(from_file || pipeline.file.empty(), {"pipeline.file", "pipeline.schedule"},
                "found " + pipeline.file + " beside schedule " + pipeline.schedule +
                    ", which takes no file; remove it, or set pipeline.schedule: csv");
        require(!from_file || !pipeline.file.empty(), {"pipeline.file", "pipeline.schedule"},
                "is needed with pipeline.schedule csv; give the path of a file with one line per pipeline "
                "rank and cells such as 0F3");
        if (!sound({"parallel.pp", "pipeline.schedule", "pipeline.chunks", "pipeline.group",
                    "pipeline.backward", "pipeline.file"}))
            return;
        const bool counted = sound({"train.global_batch", "train.micro_batch", "parallel.dp"});
        const ScheduleAnswer answer =
            schedules_(pipeline, spec_.parallel.pp,
                       counted ? std::optional<std::int64_t>(spec_.micro_batches()) : std::nullopt);
        pipeline.chunks = answer.chunks;
        pipeline.file_text = answer.file_text;
        if (!answer.problem.empty()) {
            refuse({answer.key.c_str(), "pipeline.schedule"}, answer.problem);
            return;
        }
        const std::int64_t most =
            std::max<std::int64_t>(1, most_schedule_cells / spec_.parallel.pp / answer.chunks);
        const std::int64_t micro_batches = counted ? spec_.micro_batches() : 1;
        if (micro_batches > most) {
            refuse({"pipeline.chunks", "train.global_batch", "parallel.pp"},
                   text(answer.chunks) + " x parallel.pp " + text(spec_.parallel.pp) + " x " +
                       text(micro_batches) + " micro-batches are more than the " + text(most_schedule_cells) +
                       " that a schedule may have; with these chunks " + text(most) +
                       " micro-batches are the most");
            return;
        }
        stages_ = answer.stages;
        choose_ = answer.choose_stages;
    }

    void explicit_layout() {
        const std::vector<std::int64_t>& split = spec_.pipeline.layers_per_stage;
        const std::int64_t layers = spec_.model.num_layers;
        std::int64_t sum = 0;
        for (std::int64_t count : split)
            sum = std::min(sum, most_layers_summed) + std::min(count, most_layers_summed);
        if (sum != layers)
            refuse({"pipeline.layout", "model.num_layers"},
                   list(split) + " sums to " + text(sum) + ", but model.num_layers is " + text(layers) +
                       "; give counts that sum to " + text(layers) + ", or balanced");
        if (static_cast<std::int64_t>(split.size()) != stages_)
            refuse({"pipeline.layout", "parallel.pp", "pipeline.chunks"},
                   list(split) + " has " + text(static_cast<std::int64_t>(split.size())) + " stages, but " +
                       stages_text() + "; give one count per stage, or balanced");
    }

    static constexpr std::int64_t most_layers_summed = std::int64_t{1} << 40;

    const ScheduleRules& schedules_;
    std::int64_t stages_ = 0;  // 0: not known
    ChooseStages choose_;
};

}  // namespace

void apply_pipeline_rules(Job& job, const ScheduleRules& schedules, Problems& problems) {
    PipelineRules(job, schedules, problems).run();
}

ScheduleAnswer any_schedule(const PipelineConfig& pipeline, std::int64_t pp, std::optional<std::int64_t>) {
    const std::int64_t chunks = pipeline.chunks.value_or(1);
    return {chunks, pp * chunks, pipeline.file_text, "", ""};
}

}  // namespace escalier::config
