// Rules for what follows the gradients: norm, moments, weights.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

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
        double sum = 0;
        for (const auto* tensor : of_quantity(evidence, Quantity::gradient)) sum += squares(*tensor, side);
        const double norm = evidence.norm[side], excess = norm * norm - sum;
        if (near(norm, std::sqrt(sum), evidence.norm_allowed)) continue;
        for (const NormPart& part : norm_parts(evidence, side))
            if (part.squares > 0 && near(std::abs(excess), part.squares, 0.005))
                return Diagnosis{
                    part.cause, fmt::format("All gradients agree, but the norm of {} is {:.6g} where its own "
                                            "gradients have {:.6g}: it counts {} {}.",
                                            side_name(side), norm, std::sqrt(sum), part.text,
                                            excess > 0 ? "more than once" : "not at all")};
        return Diagnosis{
            "norm", fmt::format("All gradients agree, but the norm of {} is {:.6g} where its own gradients "
                                "have {:.6g} (factor {}).",
                                side_name(side), norm, std::sqrt(sum),
                                factor_text(norm / std::sqrt(sum), evidence.grids[side]))};
    }
    return std::nullopt;
}

namespace {

MaybeDiagnosis weight_copies_differ(const List& wrong) {
    for (std::size_t side = 0; side < 2; ++side)
        for (const auto* tensor : wrong) {
            const CopyFindings& copies = tensor->copies[side];
            if (copies.deviation == 0) continue;
            if (copies.tied)
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
    const bool vectors =
        std::all_of(decayed.begin(), decayed.end(), [](const auto* t) { return t->rows.empty(); });
    return Diagnosis{
        "weight decay",
        fmt::format("Gradients agree, but {} of {} tensors ({}{}) are {} by lr x weight_decay = {:.3g} of "
                    "themselves on B: weight decay {}.",
                    decayed.size(), of_quantity(evidence, Quantity::weight).size(), decayed.front()->name,
                    decayed.size() > 1 ? ", …" : "", more ? "smaller" : "larger", expected,
                    more ? vectors ? "acts on vectors, which it must leave alone" : "acts too often"
                         : "leaves them out")};
}

}  // namespace

MaybeDiagnosis diagnose_update(const StepEvidence& evidence) {
    const List wrong = differing(evidence, Quantity::weight);
    for (const Quantity moment : {Quantity::first_moment, Quantity::second_moment}) {
        const List moments = differing(evidence, moment);
        if (!moments.empty())
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
