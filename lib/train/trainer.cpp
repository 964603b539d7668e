#include "train/trainer.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "checkpoint/weights.h"
#include "config/dump.h"
#include "config/model_facts.h"
#include "core/clock.h"
#include "core/text.h"
#include "data/sampler.h"
#include "parallel/rank_table.h"
#include "train/assembly.h"
#include "train/console.h"
#include "train/metrics.h"
#include "train/peak_flops.h"
#include "train/run_directory.h"
#include "train/run_facts.h"
#include "train/start_page.h"
#include "train/step_report.h"
#include "train/weight_metadata.h"

namespace escalier::train {

namespace {

// What only rank 0 has. A dry run leaves nothing behind.
struct Output {
    std::optional<RunDirectory> directory;
    std::ofstream log;
    std::optional<Console> console;
    std::optional<MetricsFile> metrics;

    Output(const config::JobSpec& spec, bool dry_run) {
        if (!dry_run) {
            directory.emplace(spec.run);
            log = directory->append("log.txt");
            if (spec.log.jsonl)
                metrics.emplace(directory->append("metrics.jsonl"), directory->file("metrics.jsonl"));
        }
        console.emplace(stdout_is_terminal(), dry_run ? nullptr : &log,
                        dry_run ? "" : directory->file("log.txt"));
    }
};

struct Data {
    std::shared_ptr<const data::Corpus> corpus;
    std::unique_ptr<data::Dataset> train;
    std::unique_ptr<data::EvalSet> validation;  // null: no validation
    std::string warning;
};

Data open_data(const config::JobSpec& spec) {
    Data out;
    out.corpus = std::make_shared<data::Corpus>(spec.data, spec.model.vocab_size);
    out.train = std::make_unique<data::Dataset>(out.corpus, spec.train.seq_len,
                                                static_cast<std::uint64_t>(spec.run.seed),
                                                spec.train.steps * spec.train.global_batch);
    if (spec.eval.every == 0) return out;
    out.validation = std::make_unique<data::EvalSet>(out.corpus, spec.train.seq_len,
                                                     spec.eval.batches * spec.train.global_batch);
    out.warning = out.validation->note();
    if (out.validation->size() == 0) {
        out.warning =
            "the validation split is empty (data.split: \"" + spec.data.split + "\"): no validation";
        out.validation.reset();
    }
    return out;
}

class Run {
 public:
    Run(const config::JobSpec& spec, comm::MpiEnv& env, const TrainOptions& options);
    void train();

 private:
    void show_start();
    void train_step(std::int64_t step);
    void validate(std::int64_t step);
    void require_finite_weights();
    std::string advice() const;  // what to do about numbers that are not finite
    void show_step(const StepReport& report);
    void show_end();
    void save_weights();
    bool due(std::int64_t step, std::int64_t every) const {
        return every > 0 && (step % every == 0 || step == spec_.train.steps);
    }

    config::JobSpec spec_;
    comm::MpiEnv& env_;
    const TrainOptions& options_;
    Data data_;
    std::unique_ptr<Assembly> assembly_;
    std::unique_ptr<StepReporter> reporter_;
    std::unique_ptr<Output> output_;  // rank 0 only
    double predicted_bubble_ = 0;
    std::int64_t consumed_ = 0;
    double train_seconds_ = 0;     // without the first step, saves and validation
    std::vector<RankSplit> sums_;  // of all steps but the first
};

Run::Run(const config::JobSpec& spec, comm::MpiEnv& env, const TrainOptions& options)
    : spec_(spec), env_(env), options_(options) {
    env.agree([&] {
        data_ = open_data(spec);
        if (env.world().rank() == 0 && !options.save_weights.empty()) require_writable(options.save_weights);
    });
    AssemblyOptions assembly_options;
    assembly_options.threads = compute_threads(spec.run, env.place());
    assembly_options.validation = data_.validation != nullptr;
    assembly_ = std::make_unique<Assembly>(spec, env, env.world(), assembly_options);
    spec_ = assembly_->spec();
    reporter_ = std::make_unique<StepReporter>(*assembly_, env, env.world());
    env.agree([&] {
        if (env.world().rank() == 0) output_ = std::make_unique<Output>(spec, options.dry_run);
    });
}

void Run::show_start() {
    const parallel::RankTable ranks = parallel::gather_rank_table(
        env_.world(), assembly_->groups().grid, assembly_->schedule(), env_.place(),
        compute_threads(spec_.run, env_.place()), assembly_->backend().gpu());
    const std::string page = start_page(*assembly_, env_.world(), ranks.text);
    if (!output_) return;
    predicted_bubble_ = train::predicted_bubble(*assembly_);
    Console& console = *output_->console;
    const std::optional<RunDirectory>& directory = output_->directory;
    console.line(fmt::format("escalier  job {}, {}", spec_.run.name,
                             directory ? "run directory " + directory->path() : "dry run"));
    if (directory && !directory->note().empty()) console.line("note: " + directory->note());
    console.line(page);
    const std::int64_t unused = data_.train->unused_tokens();
    console.line(
        fmt::format("data      {} samples of {} tokens for training{}{}",
                    grouped(data_.train->samples_per_epoch()), spec_.train.seq_len,
                    data_.validation ? fmt::format(", {} for validation", data_.validation->size()) : "",
                    unused ? fmt::format("; {} tokens fill no sample", grouped(unused)) : ""));
    for (const std::string& note : data_.corpus->notes()) console.line("note: " + note);
    if (!data_.warning.empty()) console.line("warning: " + data_.warning);
    for (const std::string& warning : ranks.warnings) console.line("warning: " + warning);
    if (!output_->directory) return;
    output_->directory->write("config.yaml", config::dump(spec_));
    output_->directory->write("run.json", run_facts(*assembly_, env_, ranks));
    if (output_->metrics)
        output_->metrics->start(assembly_->groups().grid.text(), config::parameter_count(spec_.model),
                                predicted_bubble_);
}

void Run::train_step(std::int64_t step) {
    const StepResult result = assembly_->step().run(*data_.train, consumed_, step);
    consumed_ += spec_.train.global_batch;
    StepReport report = reporter_->collect(result);
    report.step = step;
    report.steps = spec_.train.steps;
    report.lr = assembly_->step().learning_rate(step);
    report.consumed_samples = consumed_;
    report.consumed_tokens = consumed_ * spec_.train.seq_len;
    report.step_tokens = spec_.train.global_batch * spec_.train.seq_len;
    report.model_flops =
        config::flops_per_token(spec_.model, spec_.train.seq_len) * static_cast<double>(report.step_tokens);
    report.peak_flops =
        env_.world().size() * peak_flops(assembly_->spec(), assembly_->backend().device->description());
    if (output_) show_step(report);
    if (!std::isfinite(result.loss) || !std::isfinite(result.grad_norm))
        throw NumericError(
            fmt::format("step {}: loss {} and gradient norm {} are not both finite; the weights were left as "
                        "they were before this step. Its samples are {} to {}. {}",
                        step, result.loss, result.grad_norm, consumed_ - spec_.train.global_batch,
                        consumed_ - 1, advice()));
}

void Run::show_step(const StepReport& report) {
    if (output_->metrics) output_->metrics->step(report);
    Console& console = *output_->console;
    const std::string line = step_line(report);
    const std::int64_t kept = std::max<std::int64_t>(1, spec_.train.steps / 25);  // on a terminal
    if (report.step == 1 || due(report.step, console.terminal() ? kept : spec_.log.every))
        console.line(line);
    else if (due(report.step, spec_.log.every))
        console.log_line(line);
    if (report.step > 1) {
        train_seconds_ += report.seconds;
        const double left = train_seconds_ / static_cast<double>(report.step - 1) *
                            static_cast<double>(report.steps - report.step);
        console.status(fmt::format(
            "{} | {:.0f} % | {} left", line,
            100.0 * static_cast<double>(report.step) / static_cast<double>(report.steps), clock_text(left)));
        add_to_sums(sums_, report.ranks);
    }
}

void Run::validate(std::int64_t step) {
    const double start = now_seconds();
    double sum = 0;
    std::int64_t targets = 0;
    for (std::int64_t batch = 0; batch < data_.validation->batches(spec_.train.global_batch); ++batch) {
        std::int64_t valid = 0;
        sum += assembly_->step().validate(*data_.validation, batch * spec_.train.global_batch, valid);
        targets += valid;
    }
    const double loss = sum / static_cast<double>(targets);
    if (output_) {
        const double seconds = now_seconds() - start;
        output_->console->line(fmt::format("validation after step {} | loss {:.6f} | {} targets | {:.1f} s",
                                           step, loss, grouped(targets), seconds));
        if (output_->metrics) output_->metrics->eval(step, loss, targets, seconds);
    }
    if (!std::isfinite(loss))
        throw NumericError(fmt::format("the validation loss after step {} is {}. {}", step, loss, advice()));
}

// The last update is seen by no later loss.
void Run::require_finite_weights() {
    double count = assembly_->step().count_nonfinite_weights();
    env_.world().all_reduce_sum(TensorView(&count, DType::f64, {1}), "non-finite weights");
    if (count > 0)
        throw NumericError(fmt::format("after step {}, {} weights are not finite (over all ranks). {}",
                                       spec_.train.steps, grouped(static_cast<std::int64_t>(count)),
                                       advice()));
}

std::string Run::advice() const {
    return fmt::format(
        "Lower lr.peak ({}), set optimizer.clip_grad, or look at the other values of optimizer.",
        spec_.lr.peak);
}

void Run::show_end() {
    Console& console = *output_->console;
    const std::int64_t timed = spec_.train.steps - 1;
    if (timed > 0) {
        console.line("where a step went, mean of all steps but the first:\n" +
                     split_table(mean_of(sums_, timed)));
        const std::optional<pipeline::Bubble> bubble = reporter_->bubble();
        if (bubble && spec_.parallel.pp > 1) {
            console.line(bubble_table(*bubble));
            if (output_->metrics) output_->metrics->bubble(*bubble);
        }
        const double tokens = static_cast<double>(timed * spec_.train.global_batch * spec_.train.seq_len);
        console.line(fmt::format(
            "done: {} steps, {} tok/s without step 1, bubble measured {:.1f} %, predicted {:.1f} %",
            spec_.train.steps, grouped(static_cast<std::int64_t>(tokens / train_seconds_)),
            100 * bubble_share(sums_), 100 * predicted_bubble_));
    }
}

void Run::save_weights() {
    const double start = now_seconds();
    env_.agree([&] {
        checkpoint::save_weights(options_.save_weights, assembly_->model().parameters(), assembly_->groups(),
                                 *assembly_->backend().device, weight_metadata(spec_));
    });
    if (output_)
        output_->console->line(
            fmt::format("weights   {} ({:.1f} s)", options_.save_weights, now_seconds() - start));
}

void Run::train() {
    show_start();
    if (options_.dry_run) return;
    try {
        for (std::int64_t step = 1; step <= spec_.train.steps; ++step) {
            train_step(step);
            if (data_.validation && due(step, spec_.eval.every)) validate(step);
        }
        require_finite_weights();
    } catch (const NumericError& error) {  // the same on all ranks
        if (output_ && output_->metrics) output_->metrics->end(static_cast<int>(error.code()), error.what());
        throw comm::AgreedError(error.code(), error.what());
    }
    if (output_) show_end();
    if (!options_.save_weights.empty()) save_weights();
    if (output_ && output_->metrics) output_->metrics->end(0, "all steps done");
}

}  // namespace

int compute_threads(const config::RunConfig& run, const comm::RankPlace& place) {
    if (run.threads) return static_cast<int>(*run.threads);
    return std::max(1, std::min(place.allowed_cores, place.node_cores / place.local_size));
}

void train(const config::JobSpec& spec, comm::MpiEnv& env, const TrainOptions& options) {
    env.start_watchdog(static_cast<double>(spec.run.comm_timeout_s));
    Run(spec, env, options).train();
}

}  // namespace escalier::train
