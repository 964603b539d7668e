// From what differs to what is likely missing: rules over the tensors of one step, tried in the order of
// computation. They see numbers alone; a rule speaks where its pattern fits and no earlier one did.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "train/compare_sides.h"

namespace escalier::train {

struct GridFacts {
    std::int64_t tp = 1, pp = 1, dp = 1, micro_batches = 1, micro_batch = 1;
    std::vector<std::int64_t> layers_per_stage;
};

// What two grids left behind in one step.
struct StepEvidence {
    std::int64_t step = 0;         // 0: before the first; initial weights alone
    bool bits = false;             // equality to the bit was promised
    bool recorded_graphs = false;  // a side ran what a GPU had recorded (run.cuda_graphs)
    std::array<GridFacts, 2> grids;
    std::int64_t layers = 0;
    double learning_rate = 0, weight_decay = 0, dropout = 0;
    double clip_grad = 0;  // 0: no clipping
    std::array<double, 2> loss = {0, 0}, norm = {0, 0};
    double loss_allowed = 0, norm_allowed = 0;  // relative
    std::vector<TensorComparison> tensors;      // by quantity and order
    std::vector<std::int32_t> tokens;           // [samples * positions], as the model reads them
    // Grids that agree once side 1 is made like side 0 in one respect ("tp", "pp", "dp", "schedule",
    // "recompute") or both do without it ("dropout"): whether they did. Respects that were tried alone.
    std::map<std::string, bool> equal_without;
    // Side 0 without some samples has the gradients that side 1 has: which samples; empty: not found.
    std::string missing_samples;

    bool loss_differs() const;
    bool norm_differs() const;  // between the sides, or one from the norm of its own side's gradients
    bool differs() const;
};

// The same where only what rounding does not explain counts as a difference.
StepEvidence up_to_rounding(StepEvidence evidence);

// The first thing that differs, in order of computation.
struct FirstDifference {
    const TensorComparison* tensor = nullptr;  // null: loss, norm, or nothing
    std::string what;                          // "loss", "gradient of lm_head.weight"; empty: nothing
};
FirstDifference first_difference(const StepEvidence& evidence);

struct Diagnosis {
    std::string cause;  // "missing sum over tp": of a fixed list; "unknown"
    std::string text;   // one or two sentences for people
};
Diagnosis diagnose(const StepEvidence& evidence);

// ---- the rules, by part of the step; for diagnose() ----

using MaybeDiagnosis = std::optional<Diagnosis>;
MaybeDiagnosis diagnose_start(const StepEvidence& evidence);     // initial weights, rounding alone
MaybeDiagnosis diagnose_forward(const StepEvidence& evidence);   // activations and loss
MaybeDiagnosis diagnose_backward(const StepEvidence& evidence);  // gradients
MaybeDiagnosis diagnose_norm(const StepEvidence& evidence);
MaybeDiagnosis diagnose_update(const StepEvidence& evidence);  // moments and weights

// Of one tensor that differs:
MaybeDiagnosis diagnose_message(const StepEvidence& evidence, const TensorComparison& point);
// table: of gradients, the only one that differs. tied: it is the head's too.
MaybeDiagnosis diagnose_table(const StepEvidence& evidence, const TensorComparison& table, bool tied);
// head: its gradient, where the loss differs and the stream in front of it does not. Rows of some ids alone
// are wrong, in every shard others are right.
bool only_targets_differ(const TensorComparison& head);

// ---- what the rules share ----

// The norm of all gradients of a side; none: there are no gradients, or not all are finite.
std::optional<double> norm_of_gradients(const StepEvidence& evidence, std::size_t side);
inline constexpr double own_norm_allowed = 1e-4;  // relative, of a norm and that of the gradients it is of
std::vector<const TensorComparison*> of_quantity(const StepEvidence& evidence, Quantity quantity);
std::vector<const TensorComparison*> differing(const StepEvidence& evidence, Quantity quantity);
std::string side_name(std::size_t side);  // "B"
std::optional<std::int64_t> layer_of(const std::string& name);
// "twice", "1/4 of it (1/M)": a factor in words, with the size of the grid that it equals.
std::string factor_text(double factor, const GridFacts& grid);
bool near(double value, double wanted, double tolerance = 0.01);  // relative
inline constexpr double alike = 1e-3;  // relative distance at which a pattern counts as met
// The stage of side 1 that has a parameter; the embedding's is the first, the head's the last.
std::int64_t stage_of(const StepEvidence& evidence, const TensorComparison& parameter);
// "bf16": the type whose rounding leaves values at such a relative distance; empty: none. As a sentence too.
std::string coarse_type(double relative_difference);
std::string coarse_text(double relative_difference);
// Whether every row that is wrong by more than `tolerance` has the other side's values of another row.
struct MovedRows {
    std::size_t count;
    std::string example;  // "sample 0 has that of sample 1"
};
std::optional<MovedRows> moved_rows(const std::vector<PairSums>& rows, double tolerance);

}  // namespace escalier::train
