#include "train/run_pictures.h"

#include <spdlog/fmt/fmt.h>

#include "core/text.h"
#include "report/pipeline_picture.h"
#include "report/trace_file.h"

namespace escalier::train {

RunPictures::RunPictures(Assembly& assembly, const StepReporter& reporter, comm::MpiEnv& env,
                         RunOutput* output)
    : assembly_(assembly), reporter_(reporter), env_(env), output_(output) {
    if (assembly.spec().log.trace.steps > 0) trace_ = std::make_unique<StepTrace>(assembly, reporter);
}

void RunPictures::begin(std::int64_t step) {
    step_ = step;
    if (trace_) trace_->begin(step);
}

void RunPictures::end_reported(const StepResult& result) {
    if (!trace_) return;
    trace_->end_reported(result);
    if (trace_->complete()) write_trace();
}

void RunPictures::finish() {
    if (trace_ && trace_->steps_done() > 0) write_trace();
    if (trace_ && output_) {
        const config::TraceConfig& window = assembly_.spec().log.trace;
        output_->line(fmt::format("note: no trace was made: steps {} to {} are what log.trace asks for",
                                  window.start, window.start + window.steps - 1));
    }
    if (!pictured_ && step_ > 0) write_pipeline();
}

// Of the steps traced so far.
void RunPictures::write_trace() {
    const std::vector<report::RankTrace> traces = trace_->gather(env_);
    const std::int64_t steps = trace_->steps_done();
    trace_.reset();
    assembly_.step().trace(false);
    env_.agree([&] {
        if (write("trace.json", [&] { return report::trace_json(traces); }))
            output_->line(fmt::format("trace     {} of {} steps up to {}; open it at ui.perfetto.dev",
                                      output_->directory()->file("trace.json"), steps, step_));
    });
    write_pipeline();
    pictured_ = true;
}

// Of the last step.
void RunPictures::write_pipeline() {
    env_.agree([&] {
        const pipeline::RankActions& actions = reporter_.pipeline_ranks().actions();
        std::size_t count = 0;
        for (const auto& row : actions) count += row.size();
        if (count <= report::most_pictured_actions)
            write("pipeline.svg", [&] {
                return report::pipeline_picture(assembly_.schedule(), assembly_.programs(), actions, step_);
            });
        else if (output_)
            output_->line(fmt::format("note: a picture of {} actions would be none; pipeline.svg is left out",
                                      grouped(static_cast<std::int64_t>(count))));
    });
}

// On rank 0, what shows a run but is no part of it: where it cannot be written, the run goes on without it.
bool RunPictures::write(const char* name, const std::function<std::string()>& text) {
    if (!output_) return false;
    try {
        output_->directory()->write(name, text());
        return true;
    } catch (const IoError& error) {
        output_->warning(step_, error.what());
        return false;
    }
}

}  // namespace escalier::train
