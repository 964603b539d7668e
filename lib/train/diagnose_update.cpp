// Rules for what follows the gradients: norm, moments, weights.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "train/diagnose.h"

namespace escalier::train {

namespace {

using List = std::vector<const TensorComparison*>;

double squares(const TensorComparison& tensor, std::size_t side) {
    return side ? tensor.sums.bb : tensor.sums.aa;
}

struct NormPart {
    std::string text, cause;
    double squares;
};

// What a norm may count too often or not at all.
std::vector<NormPart> norm_parts(const StepEvidence& evidence, std::size_t side) {
    const List gradients = of_quantity(evidence, Quantity::gradient);
    const GridFacts& grid = evidence.grids[side];
    std::vector<NormPart> parts;
    double replicated = 0, table = 0, vectors = 0;
    for (const auto* tensor : gradients) {
        if (tensor->boxes[side].size() == 1) replicated += squares(*tensor, side);
        if (tensor->order == 0) table += squares(*tensor, side);
        if (tensor->rows.empty()) vectors += squares(*tensor, side);
    }
    if (grid.tp > 1)
        parts.push_back({"the parameters that every tensor rank holds", "norm counts replicated parameters",
                         replicated * static_cast<double>(grid.tp - 1)});
    parts.push_back({"the tied table", "norm counts the tied table", table});
    parts.push_back({"norm gains and biases", "norm counts vectors", vectors});
    for (int rank = 0; grid.tp > 1 && rank < grid.tp; ++rank) {
        double shard = 0;
        for (const auto* tensor : gradients)
            for (const BoxSums& box : tensor->boxes[side])
                if (box.tp_rank == rank && tensor->boxes[side].size() > 1)
                    shard += side ? box.sums.bb : box.sums.aa;
        parts.push_back({fmt::format("the shards of tensor rank {}", rank), "norm lacks a rank", shard});
    }
    std::int64_t first = 0;
    for (std::size_t stage = 0; grid.pp > 1 && stage < grid.layers_per_stage.size(); ++stage) {
        double sum = 0;
        const std::int64_t end = first + grid.layers_per_stage[stage];
        const bool last = stage + 1 == grid.layers_per_stage.size();
        for (const auto* tensor : gradients) {
            const std::optional<std::int64_t> layer = layer_of(tensor->name);
            const bool here = layer                ? *layer >= first && *layer < end
                              : tensor->order <= 1 ? stage == 0
                                                   : last;
            if (here) sum += squares(*tensor, side);
        }
        parts.push_back({fmt::format("stage {}", stage), "norm lacks a stage", sum});
        first = end;
    }
    return parts;
}

}  // namespace

MaybeDiagnosis diagnose_norm(const StepEvidence& evidence) {
    if (!evidence.norm_differs()) return std::nullopt;
    for (const std::size_t side : {std::size_t{1}, std::size_t{0}}) {
        const std::optional<double> own = norm_of_gradients(evidence, side);
        const double norm = evidence.norm[side];
        if (!own || near(norm, *own, own_norm_allowed)) continue;
        const double excess = norm * norm - *own * *own;
        for (const NormPart& part : norm_parts(evidence, side))
            if (part.squares > 0 && near(std::abs(excess), part.squares, 0.005))
                return Diagnosis{
                    part.cause, fmt::format("All gradients agree, but the norm of {} is {:.6g} where its own "
                                            "gradients have {:.6g}: it counts {} {}.",
                                            side_name(side), norm, *own, part.text,
                                            excess > 0 ? "more than once" : "not at all")};
        return Diagnosis{
            "norm", fmt::format("All gradients agree, but the norm of {} is {:.6g} where its own gradients "
                                "have {:.6g} (factor {}).",
                                side_name(side), norm, *own, factor_text(norm / *own, evidence.grids[side]))};
    }
    return std::nullopt;
}

namespace {

MaybeDiagnosis weight_copies_differ(const List& wrong) {
    for (std::size_t side = 0; side < 2; ++side)
        for (const auto* tensor : wrong) {
            const CopyFindings& copies = tensor->copies[side];
            if (copies.deviation == 0) continue;
            if (copies.over_stages)
                return Diagnosis{
                    "stale tied copy",
                    fmt::format("The first and the last stage of {} hold the same gradient of the tied "
                                "{} but different weights: one copy was not updated like the other.",
                                side_name(side), tensor->name)};
            return Diagnosis{
                "copies updated differently",
                fmt::format("Gradients agree, but the copies of {} on the {} ranks of {} were updated "
                            "differently.",
                            tensor->name,
                            copies.over_tp   ? "tensor"
                            : copies.over_dp ? "data-parallel"
                                             : "pipeline",
                            side_name(side))};
        }
    return std::nullopt;
}

// Side 1 has more or less of the weight itself: b - a is a multiple of a.
MaybeDiagnosis decay(const StepEvidence& evidence, const List& wrong) {
    const double expected = evidence.learning_rate * evidence.weight_decay;
    if (expected == 0) return std::nullopt;
    List decayed;
    bool more = false;
    for (const auto* tensor : wrong) {
        const double share = (tensor->sums.ab - tensor->sums.aa) / tensor->sums.aa;
        if (!near(std::abs(share), expected, 0.2)) continue;
        more = share < 0;
        decayed.push_back(tensor);
    }
    if (decayed.empty() || decayed.size() != wrong.size()) return std::nullopt;
    std::set<std::int64_t> stages;
    for (const auto* tensor : decayed) stages.insert(stage_of(evidence, *tensor));
    const bool vectors =
        std::all_of(decayed.begin(), decayed.end(), [](const auto* t) { return t->rows.empty(); });
    return Diagnosis{
        "weight decay",
        fmt::format("Gradients agree, but {} of {} tensors ({}{}) are {} by lr x weight_decay = {:.3g} of "
                    "themselves on B: weight decay {}.{}",
                    decayed.size(), of_quantity(evidence, Quantity::weight).size(), decayed.front()->name,
                    decayed.size() > 1 ? ", …" : "", more ? "smaller" : "larger", expected,
                    more ? vectors ? "acts on vectors, which it must leave alone" : "acts too often"
                         : "leaves them out",
                    stages.size() == 1 && evidence.grids[1].pp > 1
                        ? fmt::format(" They are all of stage {} of B.", *stages.begin())
                        : "")};
}

}  // namespace

// A weight whose update is so small that a wrong size of it would not have shown.
bool hardly_moves(const TensorComparison& tensor) {
    return tensor.quantity == Quantity::weight && !tensor.differs &&
           tensor.change.aa < std::pow(std::exp2(-10), 2) * tensor.sums.aa;
}

// How many times as far as side 0's a tensor of side 1 went; none: not a multiple.
std::optional<double> factor_of(const TensorComparison& tensor) {
    const bool weight = tensor.quantity == Quantity::weight;
    const PairSums& sums = weight ? tensor.change : tensor.sums;
    // A weight that moves alike has no change left over to fit.
    if (weight && !tensor.differs) return 1.0;
    if (sums.aa == 0 || sums.misfit() > 0.01) return std::nullopt;
    return sums.scale() + weight;
}

// One factor for all tensors of each stage of side 1; empty: there is none.
std::vector<double> factors_by_stage(const StepEvidence& evidence, Quantity quantity) {
    std::vector<std::optional<double>> found(evidence.grids[1].layers_per_stage.size());
    for (const auto* tensor : of_quantity(evidence, quantity)) {
        if (is_key_bias(tensor->name) || tensor->sums.aa == 0 || hardly_moves(*tensor)) continue;
        const std::optional<double> factor = factor_of(*tensor);
        std::optional<double>& stage = found[static_cast<std::size_t>(stage_of(evidence, *tensor))];
        if (!factor || (stage && !near(*factor, *stage))) return {};
        stage = factor;
    }
    std::vector<double> out;
    for (const auto& factor : found) out.push_back(factor.value_or(1));
    return out;
}

double norm_of_stage(const StepEvidence& evidence, std::int64_t stage) {
    double sum = 0;
    for (const auto* tensor : of_quantity(evidence, Quantity::gradient))
        if (stage_of(evidence, *tensor) == stage) sum += squares(*tensor, 1);
    return std::sqrt(sum);
}

std::string list_of(const std::vector<double>& factors) {
    std::string text;
    for (const double factor : factors) text += fmt::format("{}{:.4g}", text.empty() ? "" : ", ", factor);
    return text;
}

// Whether side 1's gradients reach the optimizer scaled by something else than the clip coefficient.
MaybeDiagnosis clipping(const StepEvidence& evidence, Quantity quantity) {
    const std::vector<double> factors = factors_by_stage(evidence, quantity);
    if (factors.empty()) return std::nullopt;
    const auto coefficient = [&](double norm) {
        return evidence.clip_grad > 0 ? std::min(1.0, evidence.clip_grad / norm) : 1.0;
    };
    const double whole = coefficient(evidence.norm[0]);
    bool uniform = true, by_stage = evidence.clip_grad > 0;
    for (std::size_t stage = 0; stage < factors.size(); ++stage) {
        uniform = uniform && near(factors[stage], factors[0]);
        by_stage =
            by_stage && near(factors[stage],
                             coefficient(norm_of_stage(evidence, static_cast<std::int64_t>(stage))) / whole);
    }
    const std::string what =
        fmt::format("Gradients and their norms agree, but the {}s of B's {} {}", quantity_name(quantity),
                    factors.size() == 1 ? "stage" : "stages", quantity == Quantity::weight ? "move" : "are");
    const bool none = whole < 1 && uniform && near(factors[0], 1 / whole);
    by_stage = by_stage && factors.size() > 1 && !(uniform && near(factors[0], 1));
    if (none || by_stage)
        return Diagnosis{
            "clipping",
            fmt::format("{} {} times the other grid's, as {}.", what, list_of(factors),
                        !by_stage ? "without clipping"
                        : none    ? "without clipping, or as if each stage clipped by the norm of its own "
                                    "gradients"
                               : "if each stage clipped by the norm of its own gradients: all must clip by "
                                 "the model's")};
    if (uniform) return std::nullopt;
    return Diagnosis{
        "scaled by stage",
        fmt::format("{} {} times the other grid's: each stage scales its gradients or its update "
                    "by another number (clip coefficient, learning rate, number of the step).",
                    what, list_of(factors))};
}

MaybeDiagnosis diagnose_update(const StepEvidence& evidence) {
    const List wrong = differing(evidence, Quantity::weight);
    for (const Quantity moment : {Quantity::first_moment, Quantity::second_moment}) {
        const List moments = differing(evidence, moment);
        if (moments.empty()) continue;
        if (moment == Quantity::first_moment)
            if (MaybeDiagnosis found = clipping(evidence, moment)) return found;
        return Diagnosis{
            "optimizer moment",
            fmt::format("Gradients agree, but the {} of {} differs ({} of {} tensors; factor {}): "
                        "the optimizer's state is not kept or scaled alike.",
                        quantity_name(moment), moments.front()->name, moments.size(),
                        of_quantity(evidence, moment).size(),
                        factor_text(moments.front()->sums.scale(), evidence.grids[1]))};
    }
    if (wrong.empty()) return std::nullopt;
    if (MaybeDiagnosis found = weight_copies_differ(wrong)) return found;
    if (MaybeDiagnosis found = decay(evidence, wrong)) return found;
    if (MaybeDiagnosis found = clipping(evidence, Quantity::weight)) return found;
    const PairSums& change = wrong.front()->change;
    if (change.misfit() < 0.01)
        return Diagnosis{
            "size of the update",
            fmt::format("Gradients agree, but {} of {} weights move {:.4g} times as far on B: learning "
                        "rate, clipping, or the number of the step.",
                        wrong.size(), of_quantity(evidence, Quantity::weight).size(), 1 + change.scale())};
    return Diagnosis{
        "update",
        fmt::format("Gradients and moments agree, but {} of {} weights differ ({}): the "
                    "optimizer treats them differently.",
                    wrong.size(), of_quantity(evidence, Quantity::weight).size(), wrong.front()->name)};
}

}  // namespace escalier::train
