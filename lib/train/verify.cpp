#include "train/verify.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "config/validate.h"
#include "schedule/lower.h"
#include "schedule/prove.h"
#include "train/job_programs.h"
#include "train/schedule_rules.h"
#include "train/verify_run.h"

namespace escalier::train {

namespace {

using Specs = std::array<config::JobSpec, 2>;

bool exact(const config::JobSpec& spec) {
    return schedule::prove(make_schedule(spec)).exact;
}

// What verify does without: nothing is written, nothing validated.
Specs stripped(Specs specs, bool record) {
    for (config::JobSpec& spec : specs) {
        spec.checkpoint.every = 0;
        spec.checkpoint.last = false;
        spec.eval.every = 0;
        spec.run.clock = "real";
        if (record) spec.run.cuda_graphs = false;  // the residual stream is read between ops
    }
    return specs;
}

// ---- rows ----

std::string place_text(const TensorComparison& tensor) {
    if (tensor.as_whole) return "as a whole";
    if (tensor.hull.columns == 1) return fmt::format("[{}]", tensor.row);
    return fmt::format("[{}, {}]", tensor.row, tensor.column);
}

VerifyRow number_row(const StepEvidence& evidence, const char* what, const std::array<double, 2>& values,
                     double allowed, bool differs) {
    VerifyRow row{evidence.step, what, 1, differs ? 1u : 0u,
                  fmt::format("{:.9g} and {:.9g}", values[0], values[1])};
    row.difference = std::abs(values[0] - values[1]);
    row.allowed = allowed * std::max(std::abs(values[0]), std::abs(values[1]));
    row.ratio = row.difference == 0 ? 0 : row.difference / row.allowed;
    return row;
}

VerifyRow tensor_row(const StepEvidence& evidence, Quantity quantity) {
    static constexpr const char* names[] = {"activations",   "activation gradients", "gradients",
                                            "first moments", "second moments",       "weights"};
    VerifyRow row;
    row.step = evidence.step;
    row.what = names[static_cast<int>(quantity)];
    row.ratio = -1;
    for (const TensorComparison& tensor : evidence.tensors) {
        if (tensor.quantity != quantity) continue;
        ++row.tensors;
        row.differing += tensor.differs;
        const bool exempt = !tensor.differs && tensor.worst > 1;  // rounding alone makes it
        if (exempt || tensor.worst <= row.ratio) continue;
        row.ratio = tensor.worst;
        row.worst = tensor.name + " " + place_text(tensor);
        row.difference = tensor.difference;
        row.allowed = tensor.allowed;
    }
    if (row.ratio <= 0) row.worst.clear();
    return row;
}

void add_rows(const StepEvidence& evidence, std::vector<VerifyRow>& rows) {
    if (evidence.step > 0) {
        rows.push_back(
            number_row(evidence, "loss", evidence.loss, evidence.loss_allowed, evidence.loss_differs()));
        rows.push_back(number_row(evidence, "gradient norm", evidence.norm, evidence.norm_allowed,
                                  evidence.norm_differs()));
    }
    for (int quantity = 0; quantity < quantities; ++quantity) {
        VerifyRow row = tensor_row(evidence, static_cast<Quantity>(quantity));
        if (row.tensors > 0) rows.push_back(std::move(row));
    }
}

// ---- a closer look ----

struct Experiment {
    std::string name, text;
    std::function<void(Specs&)> change;
};

bool recomputes(const config::JobSpec& spec) {
    return std::any_of(spec.train.recompute.begin(), spec.train.recompute.end(),
                       [](config::Recompute kind) { return kind != config::Recompute::none; });
}

std::vector<Experiment> experiments_for(const Specs& specs) {
    const config::JobSpec &a = specs[0], &b = specs[1];
    std::vector<Experiment> out;
    if (a.model.dropout > 0)
        out.push_back(
            {"dropout", "without dropout", [](Specs& s) { s[0].model.dropout = s[1].model.dropout = 0; }});
    if (recomputes(a) || recomputes(b))
        out.push_back({"recompute", "without recompute", [](Specs& s) {
                           s[1].train.recompute.assign(s[1].train.recompute.size(), config::Recompute::none);
                           s[0].train.recompute.assign(s[0].train.recompute.size(), config::Recompute::none);
                       }});
    if (a.parallel.tp != b.parallel.tp)
        out.push_back({"tp", fmt::format("with tp={} in B", a.parallel.tp),
                       [](Specs& s) { s[1].parallel.tp = s[0].parallel.tp; }});
    if (a.parallel.dp != b.parallel.dp)
        out.push_back({"dp", fmt::format("with dp={} in B", a.parallel.dp),
                       [](Specs& s) { s[1].parallel.dp = s[0].parallel.dp; }});
    if (a.parallel.pp != b.parallel.pp)
        out.push_back({"pp", fmt::format("with pp={} in B", a.parallel.pp), [](Specs& s) {
                           s[1].parallel.pp = s[0].parallel.pp;
                           s[1].pipeline = s[0].pipeline;
                           s[1].train.recompute = s[0].train.recompute;
                       }});
    else if (a.pipeline != b.pipeline)
        out.push_back({"schedule", "with A's schedule and layout in B", [](Specs& s) {
                           s[1].pipeline = s[0].pipeline;
                           s[1].train.recompute = s[0].train.recompute;
                       }});
    if (out.size() == 1 && out[0].name != "dropout" && out[0].name != "recompute")
        out.clear();  // that is A itself
    return out;
}

class Investigation {
 public:
    Investigation(const Specs& specs, comm::MpiEnv& env, const data::SampleReader& reader,
                  const VerifyOptions& options)
        : specs_(specs), env_(env), reader_(reader), options_(options) {}

    // The evidence once more, with all that can be found out.
    StepEvidence look_closer(StepEvidence evidence, std::vector<std::string>& notes) {
        if (evidence.step == 0 || !up_to_rounding(evidence).differs()) return evidence;
        std::map<std::string, bool> equal_without = try_experiments(evidence.step, notes);
        if (!options_.activations) evidence = with_activations(evidence, notes);
        evidence.equal_without = std::move(equal_without);
        if (forward_agrees(evidence) && open_question(diagnose(evidence)))
            evidence.missing_samples = find_missing_samples(evidence, notes);
        return evidence;
    }

 private:
    static bool forward_agrees(const StepEvidence& evidence) {
        const StepEvidence large = up_to_rounding(evidence);
        return !large.loss_differs() && differing(large, Quantity::activation).empty() &&
               !differing(large, Quantity::gradient).empty();
    }

    // No rule has known the pattern of the gradients.
    static bool open_question(const Diagnosis& diagnosis) {
        return diagnosis.cause == "gradient" || diagnosis.cause == "weight gradient" ||
               diagnosis.cause == "backward pass" || diagnosis.cause == "one tensor";
    }

    // Resolved anew; none where the changed grid does not fit.
    std::optional<Specs> changed(const Experiment& experiment) {
        Specs specs = specs_;
        experiment.change(specs);
        for (config::JobSpec& spec : specs) {
            if (grid_of(spec).ranks() > env_.world().size()) return std::nullopt;
            try {
                const std::string file = spec.pipeline.file_text;
                spec = config::resolve(spec, grid_of(spec).ranks(),
                                       schedule_rules([file](const std::string&) { return file; }));
            } catch (const ConfigError&) {
                return std::nullopt;
            }
        }
        return specs;
    }

    // Of a run that only looks closer: where it fails on all ranks alike, what is known already still stands.
    std::optional<StepEvidence> last_step(const Specs& specs, const VerifyRun& run, const std::string& what,
                                          std::vector<std::string>& notes) {
        try {
            return run_sides(specs, env_, reader_, options_.sides, run).back();
        } catch (const comm::AgreedError& error) {
            notes.push_back(what + ": could not be run (" + error.what() + ")");
            return std::nullopt;
        }
    }

    std::map<std::string, bool> try_experiments(std::int64_t steps, std::vector<std::string>& notes) {
        std::map<std::string, bool> equal;
        for (const Experiment& experiment : experiments_for(specs_)) {
            const std::optional<Specs> specs = changed(experiment);
            if (!specs) continue;
            const VerifyRun run{promises_bits((*specs)[0], (*specs)[1]), steps, false, {}};
            const std::optional<StepEvidence> found = last_step(*specs, run, experiment.text, notes);
            if (!found) continue;
            const bool same = !found->differs();
            equal[experiment.name] = same;
            notes.push_back(experiment.text + ": " + (same ? "equal" : "differs as well"));
        }
        return equal;
    }

    StepEvidence with_activations(const StepEvidence& evidence, std::vector<std::string>& notes) {
        const VerifyRun run{evidence.bits, evidence.step, true, {}};
        std::optional<StepEvidence> again = last_step(stripped(specs_, true), run, "with activations", notes);
        if (!again) return evidence;
        if (again->step != evidence.step || !again->differs()) {
            notes.push_back(evidence.recorded_graphs
                                ? "a second run, without recorded graphs, does not differ in the same step: "
                                  "what graphs replay is wrong (--set run.cuda_graphs=false does without "
                                  "them), or the difference is not reproducible"
                                : "a second run does not differ in the same step: the difference is not "
                                  "reproducible");
            return evidence;
        }
        const FirstDifference first = first_difference(up_to_rounding(*again));
        notes.push_back("with activations: the first difference is in the " + first.what);
        return std::move(*again);
    }

    // Side 0 without one part of the batch after the other.
    std::string find_missing_samples(const StepEvidence& evidence, std::vector<std::string>& notes) {
        for (const auto& [text, hides] : candidates(evidence)) {
            const std::int64_t batch = specs_[0].train.global_batch, step = evidence.step;
            const HiddenSamples hidden = [&hides = hides, batch, step](std::int64_t sample) {
                return sample / batch == step - 1 && hides(sample % batch);
            };
            const VerifyRun run{false, step, false, hidden};
            const std::optional<StepEvidence> without = last_step(specs_, run, "A without " + text, notes);
            if (!without || without->step != step || !explains(evidence, *without)) continue;
            notes.push_back("A without " + text + " has the gradients of B");
            return text;
        }
        return "";
    }

    // Whether every gradient that differs agrees with that of the smaller batch.
    static bool explains(const StepEvidence& evidence, const StepEvidence& without) {
        const StepEvidence large = up_to_rounding(evidence);
        for (const TensorComparison* tensor : differing(large, Quantity::gradient)) {
            const auto again =
                std::find_if(without.tensors.begin(), without.tensors.end(), [&](const auto& t) {
                    return t.quantity == Quantity::gradient && t.order == tensor->order &&
                           t.name == tensor->name;
                });
            if (again->differs && !is_key_bias(tensor->name)) return false;
        }
        return true;
    }

    using Candidates = std::vector<std::pair<std::string, std::function<bool(std::int64_t)>>>;
    Candidates candidates(const StepEvidence& evidence) const {
        static constexpr std::int64_t most = 16;
        const GridFacts grid = evidence.grids[1];
        Candidates out;
        for (std::int64_t rank = 0; grid.dp > 1 && rank < std::min(grid.dp, most); ++rank)
            out.emplace_back(
                fmt::format("the samples of dp rank {}", rank),
                [grid, rank](std::int64_t sample) { return sample / grid.micro_batch % grid.dp == rank; });
        for (std::int64_t mb = 0; grid.micro_batches > 1 && mb < std::min(grid.micro_batches, most); ++mb)
            out.emplace_back(
                fmt::format("micro-batch {} of {}", mb, grid.micro_batches),
                [grid, mb](std::int64_t sample) { return sample / (grid.micro_batch * grid.dp) == mb; });
        for (std::int64_t mb = 0; grid.micro_batches > 2 && mb < std::min(grid.micro_batches, most); ++mb)
            out.emplace_back(fmt::format("all micro-batches but {}", mb), [grid, mb](std::int64_t sample) {
                return sample / (grid.micro_batch * grid.dp) != mb;
            });
        return out;
    }

    const Specs& specs_;
    comm::MpiEnv& env_;
    const data::SampleReader& reader_;
    const VerifyOptions& options_;
};

}  // namespace

bool promises_bits(const config::JobSpec& a, const config::JobSpec& b) {
    return a.parallel.tp == b.parallel.tp && a.parallel.dp == b.parallel.dp &&
           a.train.micro_batch == b.train.micro_batch && a.micro_batches() == b.micro_batches() && exact(a) &&
           exact(b);
}

void require_comparable(const Specs& specs, std::int64_t ranks, std::int64_t steps) {
    const char* sides[] = {"first", "second"};
    for (std::size_t side = 0; side < 2; ++side)
        if (grid_of(specs[side]).ranks() > ranks)
            throw ConfigError(fmt::format(
                "--grid: the {} grid, tp={},pp={},dp={}, needs {} ranks, but there are {}. Start it with "
                "mpirun -n {}, or give a smaller grid.",
                sides[side], specs[side].parallel.tp, specs[side].parallel.pp, specs[side].parallel.dp,
                grid_of(specs[side]).ranks(), ranks,
                std::max(grid_of(specs[0]).ranks(), grid_of(specs[1]).ranks())));
    const std::int64_t a = specs[0].train.global_batch, b = specs[1].train.global_batch;
    if (a != b)
        throw ConfigError(fmt::format(
            "--grid: train.global_batch is {} on the first grid and {} on the second, so they would train on "
            "other samples. Set train.global_batch (--set train.global_batch={}).",
            a, b, std::max(a, b)));
    if (specs[0].model != specs[1].model)
        throw ConfigError("--grid: the two grids train other models; change keys of the grid alone.");
    if (specs[0].train.steps < steps)
        throw ConfigError(fmt::format(
            "--steps: found {}, but train.steps is {}, beyond which the job has no steps. Give a smaller "
            "number, or set train.steps.",
            steps, specs[0].train.steps));
}

VerifyResult verify(const Specs& asked, comm::MpiEnv& env, const data::SampleReader& reader,
                    const VerifyOptions& options) {
    env.agree([&] { require_comparable(asked, env.world().size(), options.steps); });
    const Specs specs = stripped(asked, options.activations);
    VerifyResult result;
    result.bits = promises_bits(specs[0], specs[1]);
    const VerifyRun run{result.bits, options.steps, options.activations, {}};
    const std::vector<StepEvidence> steps = run_sides(specs, env, reader, options.sides, run);
    for (const StepEvidence& evidence : steps) add_rows(evidence, result.rows);
    const StepEvidence& last = steps.back();
    result.equal = !last.differs();
    if (result.equal) {
        if (!std::isfinite(last.loss[0]) || !std::isfinite(last.norm[0]))
            throw NumericError(
                fmt::format("step {}: loss {} and gradient norm {} are not both finite, on both "
                            "grids. Lower lr.peak ({}), or look at the other values of optimizer.",
                            last.step, last.loss[0], last.norm[0], specs[0].lr.peak));
        return result;
    }
    result.step = last.step;
    result.first = first_difference(last).what;
    const StepEvidence evidence =
        Investigation(specs, env, reader, options).look_closer(last, result.experiments);
    result.diagnosis = diagnose(evidence);
    return result;
}

}  // namespace escalier::train
