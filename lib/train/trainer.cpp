#include "train/trainer.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>

#include "checkpoint/commit.h"
#include "checkpoint/run_folder.h"
#include "checkpoint/weights.h"
#include "config/dump.h"
#include "config/model_facts.h"
#include "core/clock.h"
#include "core/text.h"
#include "parallel/rank_table.h"
#include "train/assembly.h"
#include "train/chosen_start.h"
#include "train/memory_report.h"
#include "train/peak_flops.h"
#include "train/resume.h"
#include "train/run_facts.h"
#include "train/run_output.h"
#include "train/run_pictures.h"
#include "train/save_facts.h"
#include "train/start_page.h"
#include "train/step_report.h"
#include "train/training_data.h"
#include "train/validation.h"
#include "train/weight_metadata.h"

namespace escalier::train {

namespace {

class Run {
 public:
    Run(const config::JobSpec& spec, comm::MpiEnv& env, const TrainOptions& options);
    int train();

 private:
    void choose_start();
    void restore();
    void open_output();
    void turn_back();
    void show_start();
    void train_steps();
    void train_step();
    void require_update(const StepResult& result);
    std::string validate();
    void require_finite_weights();
    std::string advice() const;  // what to do about numbers that are not finite
    bool asked_to_stop();
    bool save_due() const;
    void save();
    void show(const std::optional<checkpoint::SavedCheckpoint>& saved);
    void finish_save_after(const Error& error);
    void save_weights();
    void end_output(int exit_code, const std::string& reason);
    int end();
    bool resumed() const { return !start_.checkpoint.empty(); }
    bool done() const { return step_ >= spec_.train.steps; }

    config::JobSpec spec_;
    comm::MpiEnv& env_;
    const TrainOptions& options_;
    StartPoint start_;                    // notes on rank 0 only
    std::unique_ptr<RunDirectory> held_;  // to go on in, until output_ has it; rank 0 only
    TrainingData data_;
    std::unique_ptr<checkpoint::CheckpointReader> resumed_;  // until its state is here
    checkpoint::PosixFiles files_;
    std::unique_ptr<RunOutput> output_;   // rank 0 only
    std::unique_ptr<Assembly> assembly_;  // its saver writes by files_ into output_'s folder until it ends
    std::unique_ptr<StepReporter> reporter_;
    std::unique_ptr<RunPictures> pictures_;
    std::string assets_directory_;  // of what came with an imported model; rank 0 only
    double predicted_bubble_ = 0;
    std::int64_t step_ = 0;         // done so far
    std::int64_t saved_step_ = -1;  // of the last save begun, or of the checkpoint resumed from
    std::int64_t consumed_ = 0;     // samples
    std::int64_t consumed_tokens_ = 0;
    int stop_ = 0;  // why all ranks stop, as StopRequest numbers it; 0: they do not
};

Run::Run(const config::JobSpec& spec, comm::MpiEnv& env, const TrainOptions& options)
    : spec_(spec), env_(env), options_(options) {
    choose_start();
    env.agree([&] {
        data_ = open_data(spec);
        if (env.world().rank() == 0 && !options.save_weights.empty()) require_writable(options.save_weights);
    });
    require_same_data(data_, env);
    AssemblyOptions assembly_options;
    assembly_options.threads = compute_threads(spec.run, env.place());
    assembly_options.validation = data_.validation != nullptr;
    assembly_ = std::make_unique<Assembly>(spec, env, env.world(), assembly_options);
    spec_ = assembly_->spec();
    reporter_ = std::make_unique<StepReporter>(*assembly_, env, env.world());
    restore();
    open_output();
    resumed_.reset();  // files that stay mapped keep their disk space once they are deleted
    pictures_ = std::make_unique<RunPictures>(*assembly_, *reporter_, env, output_.get());
}

void Run::choose_start() {
    ChosenStart chosen = choose_start_together(spec_, options_.own_run_first, options_.dry_run, env_);
    start_ = std::move(chosen.point);
    resumed_ = std::move(chosen.checkpoint);
    held_ = std::move(chosen.directory);
}

void Run::restore() {
    if (!resumed_) return;
    const checkpoint::RunState& run = resumed_->manifest().run;
    env_.activity().begin(comm::Doing::loading_checkpoint);
    env_.agree([&] {
        require_same_tensors(*resumed_, assembly_->state());
        const std::vector<std::string> notes = compare_with_checkpoint(*resumed_, spec_, data_.fingerprint());
        start_.notes.insert(start_.notes.end(), notes.begin(), notes.end());
    });
    env_.agree([&] { checkpoint::load_state(*resumed_, assembly_->state(), *assembly_->backend().device); });
    assembly_->model().prepare_weights();
    assembly_->step().restore(run.updates, {run.loss_window, run.norm_window, run.skipped});
    step_ = run.step;
    if (start_.from_own_folder()) saved_step_ = step_;
    consumed_ = run.consumed_samples;
    consumed_tokens_ = run.consumed_tokens;
}

void Run::open_output() {
    env_.agree([&] {
        if (env_.world().rank() != 0) return;
        output_ = std::make_unique<RunOutput>(spec_, std::move(held_), start_.own_name, options_.dry_run);
        if (!output_->directory() || !resumed_) return;
        output_->directory()->write("run.json", origin_facts(start_.checkpoint));
        if (resumed_->assets_directory().empty()) return;
        // The checkpoint that they came with may go; the run keeps them for its own.
        assets_directory_ = output_->directory()->file(checkpoint::assets_name);
        std::error_code error;
        std::filesystem::copy(
            resumed_->assets_directory(), assets_directory_,
            std::filesystem::copy_options::overwrite_existing | std::filesystem::copy_options::recursive,
            error);
        if (error)
            throw IoError::write(assets_directory_ + ": cannot be copied from " +
                                 resumed_->assets_directory() + ": " + error.message());
    });
    if (options_.dry_run) return;
    assembly_->saver().open(output_ ? output_->directory()->path() : "", env_, files_);
    assembly_->saver().on_stall([this](const std::string& text) {
        if (output_) output_->warning(step_, text);
    });
    env_.agree([&] {
        if (output_ && names_own_step(spec_) && !done()) turn_back();
    });
}

// Where an earlier step than the newest was asked for, `auto` takes it too from here on, whatever happens
// before the first save.
void Run::turn_back() {
    const std::string& run = start_.run_directory;
    if (checkpoint::newest_checkpoint(run).directory != start_.checkpoint)
        checkpoint::turn_latest(files_, run, step_);
}

void Run::show_start() {
    const parallel::RankTable ranks = parallel::gather_rank_table(
        env_.world(), assembly_->groups().grid, assembly_->schedule(), env_.place(),
        compute_threads(spec_.run, env_.place()), assembly_->backend().gpu());
    const std::vector<std::vector<device::ArenaSize>> arenas =
        gather_arenas(assembly_->arenas(), env_.world());
    if (!output_) return;
    predicted_bubble_ = train::predicted_bubble(*assembly_);
    output_->line(start_page(*assembly_, arenas, ranks.text));
    const std::int64_t unused = data_.train->unused_tokens();
    output_->line(
        fmt::format("data      {} samples of {} tokens for training{}{}",
                    grouped(data_.train->samples_per_epoch()), spec_.train.seq_len,
                    data_.validation ? fmt::format(", {} for validation", data_.validation->size()) : "",
                    unused ? fmt::format("; {} tokens fill no sample", grouped(unused)) : ""));
    for (const std::string& note : start_.notes) output_->line(note);
    for (const std::string& note : data_.corpus->notes()) output_->line("note: " + note);
    if (!data_.warning.empty()) output_->line("warning: " + data_.warning);
    for (const std::string& warning : ranks.warnings) output_->line("warning: " + warning);
    if (resumed())
        output_->line(done() ? fmt::format("all {} steps of train.steps are done already", spec_.train.steps)
                             : fmt::format("going on with step {}", step_ + 1));
    if (!output_->directory()) return;
    output_->directory()->write("config.yaml", config::dump(spec_));
    output_->directory()->write("run.json", run_facts(*assembly_, env_, ranks, start_.checkpoint));
    output_->start({assembly_->groups().grid.text(), config::parameter_count(spec_.model), predicted_bubble_,
                    step_ + 1, spec_.train.steps, start_.checkpoint, arenas},
                   step_ + 1);
}

void Run::train_step() {
    ++step_;
    pictures_->begin(step_);
    const StepResult result = assembly_->step().run(*data_.train, consumed_, step_);
    const std::int64_t step_tokens = spec_.train.global_batch * spec_.train.seq_len;
    consumed_ += spec_.train.global_batch;
    consumed_tokens_ += step_tokens;
    StepReport report = reporter_->collect(result);
    report.step = step_;
    report.steps = spec_.train.steps;
    report.lr = assembly_->step().learning_rate(step_);
    report.consumed_samples = consumed_;
    report.consumed_tokens = consumed_tokens_;
    report.step_tokens = step_tokens;
    report.model_flops =
        config::flops_per_token(spec_.model, spec_.train.seq_len) * static_cast<double>(report.step_tokens);
    report.peak_flops = assembly_->backend().devices *
                        peak_flops(assembly_->spec(), assembly_->backend().device->description());
    report.skipped = result.verdict != Verdict::update;
    if (output_) output_->step(report);
    pictures_->end_reported(result);
    if (report.skipped) require_update(result);
}

// Of a step that left the weights as they were: ends the run or goes on, on all ranks alike.
void Run::require_update(const StepResult& result) {
    const UpdateGuard& guard = assembly_->step().guard();
    const std::string what =
        result.verdict == Verdict::nonfinite
            ? fmt::format("step {}: loss {} and gradient norm {} are not both finite", step_, result.loss,
                          result.grad_norm)
            : fmt::format(
                  "step {}: loss {} and gradient norm {} lie {:.1f} and {:.1f} standard deviations "
                  "above the means of the last {} updates (train.spike_z {})",
                  step_, result.loss, result.grad_norm, guard.loss_z(), guard.norm_z(),
                  spec_.train.spike_window, spec_.train.spike_z);
    const std::string samples =
        fmt::format("Its samples are {} to {}.", consumed_ - spec_.train.global_batch, consumed_ - 1);
    if (result.verdict == Verdict::nonfinite && spec_.train.on_nonfinite == "stop")
        throw NumericError(fmt::format("{}; the weights were left as they were before this step. {} {}", what,
                                       samples, advice()));
    if (guard.state().skipped >= spec_.train.skip_limit)
        throw NumericError(
            fmt::format("{}; it is the last of {} steps in a row that updated nothing "
                        "(train.skip_limit). {} {}",
                        what, guard.state().skipped, samples, advice()));
    if (output_) output_->warning(step_, fmt::format("{}; nothing was updated. {}", what, samples));
}

// Empty, or what ends the run: a loss that is not finite where train.on_nonfinite says so.
std::string Run::validate() {
    const Validation found = train::validate(assembly_->step(), *data_.validation, spec_.train.global_batch);
    if (output_) output_->eval(step_, found.loss, found.targets, found.seconds);
    if (std::isfinite(found.loss)) return "";
    require_finite_weights();
    const std::string what = found.fault(step_);
    if (spec_.train.on_nonfinite == "stop")
        return what +
               ". The weights of this step are saved; train.on_nonfinite: skip goes on, and so does "
               "eval.every: 0.";
    if (output_) output_->warning(step_, what + "; validation updates nothing, so the run goes on.");
    return "";
}

// An update is seen by the next step's loss; the last one by none.
void Run::require_finite_weights() {
    double count = assembly_->step().count_nonfinite_weights();
    env_.world().all_reduce_sum(TensorView(&count, DType::f64, {1}), "non-finite weights");
    if (count > 0)
        throw NumericError(fmt::format("after step {}, {} weights are not finite (over all ranks). {}", step_,
                                       grouped(static_cast<std::int64_t>(count)), advice()));
}

std::string Run::advice() const {
    return fmt::format(
        "Lower lr.peak ({}), set optimizer.clip_grad, or look at the other values of optimizer.",
        spec_.lr.peak);
}

// All ranks alike, whichever of them was asked.
bool Run::asked_to_stop() {
    stop_ = options_.stop->poll(spec_.run.max_minutes);
    env_.world().all_reduce_max(TensorView(&stop_, DType::i32, {1}), "all ranks to agree to go on");
    return stop_ != 0;
}

bool Run::save_due() const {
    if (done() && spec_.checkpoint.last) return true;
    return spec_.checkpoint.every > 0 && step_ % spec_.checkpoint.every == 0;
}

void Run::save() {
    if (saved_step_ == step_) return;
    saved_step_ = step_;
    env_.activity().begin(comm::Doing::saving);
    show(assembly_->saver().finish());  // the one before is told of even if this one cannot begin
    show(assembly_->saver().begin(save_facts(*assembly_, {step_, consumed_, consumed_tokens_},
                                             data_.fingerprint(), assets_directory_)));
}

void Run::show(const std::optional<checkpoint::SavedCheckpoint>& saved) {
    if (saved && output_) output_->checkpoint(*saved);
}

void Run::train_steps() {
    // What came from elsewhere is this run's own from here on: `auto` finds it whatever happens before the
    // first save.
    if (resumed() && spec_.checkpoint.every > 0 && !done()) save();
    while (!asked_to_stop() && !done()) {
        train_step();
        std::string unsound;
        if (data_.validation && (done() || step_ % spec_.eval.every == 0)) unsound = validate();
        if (done()) require_finite_weights();
        show(assembly_->saver().at_step_end());
        if (save_due() || !unsound.empty()) save();
        if (!unsound.empty()) throw NumericError(unsound);
    }
    if (!done()) save();
    env_.activity().begin(comm::Doing::saving);
    show(assembly_->saver().finish());
}

// What was saved before the fault is whole and sound: it is worth its end.
void Run::finish_save_after(const Error& error) {
    std::string reason = error.what();
    try {
        show(assembly_->saver().finish());
    } catch (const comm::AgreedError& second) {
        reason += std::string(" And the checkpoint that was being written: ") + second.what();
    }
    end_output(static_cast<int>(error.code()), reason);
    throw comm::AgreedError(error.code(), reason);
}

void Run::save_weights() {
    const double start = now_seconds();
    try {
        env_.agree([&] {
            checkpoint::save_weights(options_.save_weights, assembly_->model().parameters(),
                                     assembly_->groups(), *assembly_->backend().device,
                                     weight_metadata(spec_));
        });
    } catch (const comm::AgreedError& error) {
        end_output(static_cast<int>(error.code()), error.what());
        throw;
    }
    if (output_)
        output_->line(fmt::format("weights   {} ({:.1f} s)", options_.save_weights, now_seconds() - start));
}

// Collective.
void Run::end_output(int exit_code, const std::string& reason) {
    const std::vector<std::int64_t> resident = gather_peak_resident(env_.world());
    if (output_) output_->end(exit_code, reason, resident);
}

int Run::end() {
    pictures_->finish();
    if (output_) output_->summary(reporter_->bubble(), predicted_bubble_);
    if (!done()) {
        std::string reason = fmt::format("stopped by {} after step {} of {}", StopRequest::name(stop_), step_,
                                         spec_.train.steps);
        if (output_) {
            reason += "; go on with " + resume_argument(spec_.run, output_->directory()->path());
            output_->line(reason);
        }
        end_output(static_cast<int>(ExitCode::stopped_early), reason);
        return static_cast<int>(ExitCode::stopped_early);
    }
    if (!options_.save_weights.empty()) save_weights();
    end_output(0, "all steps done");
    return 0;
}

int Run::train() {
    show_start();
    if (options_.dry_run) return 0;
    try {
        train_steps();
    } catch (const NumericError& error) {  // the same on all ranks
        finish_save_after(error);
    } catch (const comm::AgreedError& error) {
        finish_save_after(error);
    } catch (const std::exception& error) {
        // Of this rank alone. What is torn down may wait for the others, which wait for this rank: not first.
        env_.abort(error);
    }
    return end();
}

}  // namespace

int compute_threads(const config::RunConfig& run, const comm::RankPlace& place) {
    if (run.threads) return static_cast<int>(*run.threads);
    return std::max(1, std::min(place.allowed_cores, place.node_cores / place.local_size));
}

int train(const config::JobSpec& spec, comm::MpiEnv& env, const TrainOptions& options) {
    env.start_watchdog(static_cast<double>(spec.run.comm_timeout_s));
    return Run(spec, env, options).train();
}

}  // namespace escalier::train
