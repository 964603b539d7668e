// Rules for the start of a step: initial weights, activations, loss.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "train/diagnose.h"

namespace escalier::train {

namespace {

// "attention of layer 2"; the part of the model that leads to a point of the residual stream.
std::string part_before(const TensorComparison& point) {
    if (point.order == 0) return "embedding";
    return fmt::format("{} of layer {}", point.order % 2 ? "attention" : "mlp", (point.order - 1) / 2);
}

bool gone_without(const StepEvidence& evidence, const std::string& what) {
    const auto found = evidence.equal_without.find(what);
    return found != evidence.equal_without.end() && found->second;
}

std::string also_stale(const StepEvidence& evidence) {
    if (evidence.step <= 1) return "";
    return fmt::format(
        " All weights agreed at the end of step {}, so it is something that goes on from step to step (a "
        "copy or another form of a weight that was not brought up to date, the place in the data, a "
        "counter), "
        "or that earlier steps could not show, such as biases, which start at zero.",
        evidence.step - 1);
}

MaybeDiagnosis differing_copies(const StepEvidence& evidence, const TensorComparison& point) {
    for (std::size_t side = 0; side < 2; ++side) {
        const CopyFindings& copies = point.copies[side];
        if (!copies.over_tp) continue;
        const std::string where = part_before(point);
        if (copies.tp_sum && *copies.tp_sum < alike)
            return Diagnosis{"missing sum over tp in forward",
                             fmt::format("Tensor ranks of {} hold different values behind the {}, and what "
                                         "they add to the residual stream sums up to the other grid's: the "
                                         "forward sum over tp is missing there.",
                                         side_name(side), where)};
        if (gone_without(evidence, "dropout"))
            return Diagnosis{
                "other dropout mask",
                fmt::format("Tensor ranks of {} hold different values behind the {}, and without "
                            "dropout the grids agree: each tensor rank draws a mask of its own, "
                            "where all must draw the same.",
                            side_name(side), where)};
        return Diagnosis{
            "missing sum over tp in forward",
            fmt::format("Tensor ranks of {} hold different values behind the {}, where a sum over "
                        "tp should have made them equal.",
                        side_name(side), where)};
    }
    return std::nullopt;
}

// Whether the samples that differ hold the values of other samples.
MaybeDiagnosis permuted_samples(const StepEvidence& evidence, const TensorComparison& point) {
    const std::optional<MovedRows> moved = moved_rows(point.rows, alike);
    if (!moved) return std::nullopt;
    return Diagnosis{
        "micro-batch order",
        fmt::format("Behind the {} the right values stand with the wrong samples ({}, {} of {} in all): "
                    "micro-batches are taken in another order there than before it.",
                    part_before(point), moved->example, moved->count, point.rows.size()) +
            also_stale(evidence)};
}

// Ids whose rows differ at the embedding's point.
std::set<std::int32_t> wrong_tokens(const StepEvidence& evidence, const TensorComparison& point,
                                    std::set<std::int32_t>& right) {
    std::set<std::int32_t> wrong;
    for (std::size_t i = 0; i < point.tokens.size() && i < evidence.tokens.size(); ++i)
        (point.tokens[i].relative_difference() > alike ? wrong : right).insert(evidence.tokens[i]);
    return wrong;
}

MaybeDiagnosis embedding_rules(const StepEvidence& evidence, const TensorComparison& point) {
    if (point.alike_over_samples > 1 - alike && point.rows.size() > 1)
        return Diagnosis{
            "position offset",
            "Behind the embedding every sample is wrong by the same amount at the same position, "
            "whatever its tokens are: the positions' table is read from a wrong place." +
                also_stale(evidence)};
    std::set<std::int32_t> right;
    const std::set<std::int32_t> wrong = wrong_tokens(evidence, point, right);
    if (!wrong.empty() && !right.empty()) {
        const bool apart = *wrong.begin() > *right.rbegin() || *wrong.rbegin() < *right.begin();
        if (apart || evidence.grids[0].tp != evidence.grids[1].tp)
            return Diagnosis{"vocabulary shard offset",
                             fmt::format("Behind the embedding the tokens with ids {} to {} are wrong and "
                                         "others right: a tensor rank looks ids up in the wrong rows of its "
                                         "shard of the vocabulary, or one step beyond its end.",
                                         *wrong.begin(), *wrong.rbegin())};
    }
    if (point.sums.scale() > 1.2 && !wrong.empty() && right.empty())
        return Diagnosis{"counted twice in forward",
                         fmt::format("Behind the embedding every value is too large, by a part that fits the "
                                     "tokens' rows (factor {:.3g} in all): the look-up is summed over tp "
                                     "more than once.",
                                     point.sums.scale())};
    if (point.change.aa == 0 && !wrong.empty() && right.empty())
        return Diagnosis{"embedding rows",
                         "Behind the embedding all tokens are wrong though the weights are equal: rows or "
                         "positions are looked up in the wrong place." +
                             also_stale(evidence)};
    return std::nullopt;
}

MaybeDiagnosis same_on_all_ranks(const StepEvidence& evidence, const TensorComparison& point) {
    const std::string where = part_before(point);
    const double factor = point.change.scale();
    if (point.order > 0 && point.change.misfit() < alike && !near(factor, 1, alike))
        return Diagnosis{
            factor > 1 ? "counted twice in forward" : "scaled in forward",
            fmt::format("What the {} adds to the residual stream is {} times the other grid's: it "
                        "is summed or scaled once too often.",
                        where, factor_text(factor, evidence.grids[1])) +
                also_stale(evidence)};
    if (MaybeDiagnosis found = permuted_samples(evidence, point)) return found;
    if (gone_without(evidence, "dropout"))
        return Diagnosis{
            "other dropout mask",
            fmt::format("The {} differs, and without dropout the grids agree: its mask depends on "
                        "the grid (it must be drawn for the global sample, never for a rank or a "
                        "place in a queue).",
                        where)};
    if (point.order == 0) return embedding_rules(evidence, point);
    if (point.alike_over_tokens > 1 - alike && point.tokens.size() > 1)
        return Diagnosis{
            "bias in forward",
            fmt::format("Behind the {} every position of every sample is off by the same vector: the bias of "
                        "its last product is not added once{}.",
                        where,
                        gone_without(evidence, "tp") || evidence.grids[0].tp != evidence.grids[1].tp
                            ? " (every tensor rank adds it before the sum over tp, or none does)"
                            : "")};
    const std::size_t positions = point.rows.empty() ? 0 : point.tokens.size() / point.rows.size();
    bool first_right = positions > 1;
    for (std::size_t i = 0; first_right && i < point.tokens.size(); i += positions)
        first_right = point.tokens[i].relative_difference() < alike;
    if (point.order % 2 && first_right)
        return Diagnosis{
            "attention positions",
            fmt::format("Behind the {} the first position of every sample is right and later ones "
                        "are not: what one position sees of earlier ones is wrong (rotary "
                        "positions, mask, or scale of the scores).",
                        where) +
                also_stale(evidence)};
    return std::nullopt;
}

// Where only some samples are wrong, whose they are.
std::string which_samples(const StepEvidence& evidence, const TensorComparison& point) {
    const GridFacts& grid = evidence.grids[1];
    std::set<std::int64_t> replicas, micro_batches;
    std::size_t wrong = 0;
    for (std::size_t sample = 0; sample < point.rows.size(); ++sample) {
        if (point.rows[sample].relative_difference() < alike) continue;
        ++wrong;
        const std::int64_t group = static_cast<std::int64_t>(sample) / grid.micro_batch;
        replicas.insert(group % grid.dp);
        micro_batches.insert(group / grid.dp);
    }
    if (wrong == point.rows.size() || wrong == 0) return "";
    if (grid.dp > 1 && replicas.size() == 1)
        return fmt::format(" Only samples of dp rank {} of B are wrong.", *replicas.begin());
    if (static_cast<std::int64_t>(micro_batches.size()) < grid.micro_batches)
        return fmt::format(" Only samples of {} of B's {} micro-batches are wrong, from micro-batch {} on.",
                           micro_batches.size(), grid.micro_batches, *micro_batches.begin());
    return "";
}

MaybeDiagnosis loss_rules(const StepEvidence& evidence, bool stream_known) {
    const double a = evidence.loss[0], b = evidence.loss[1];
    const bool gradients_differ = !differing(evidence, Quantity::gradient).empty();
    if (!gradients_differ)
        return Diagnosis{
            "reported loss",
            fmt::format("Every gradient agrees, so only the reported loss is wrong, by a factor of "
                        "{}: its sum over micro-batches, or over ranks, or the number it is "
                        "divided by.",
                        factor_text(b / a, evidence.grids[1]))};
    for (std::size_t side = 0; side < 2; ++side) {
        const double excess = side ? b - a : a - b, tp = static_cast<double>(evidence.grids[side].tp);
        if (tp > 1 && std::abs(std::abs(excess) - std::log(tp)) < 0.02 * std::log(tp))
            return Diagnosis{
                "softmax over shards",
                fmt::format("The loss of {} is off by log(tp) = {:.4f}: each tensor rank's share of "
                            "the softmax's sum counts as a whole one.",
                            side_name(side), std::log(tp))};
    }
    const auto multiple = [](double factor) {
        return std::round(factor) >= 2 && near(factor, std::round(factor), 1e-4);
    };
    if (multiple(b / a) || multiple(a / b))
        return Diagnosis{"scaled loss", fmt::format("The loss is {} times the other grid's.",
                                                    factor_text(b / a, evidence.grids[1]))};
    if (!stream_known) return std::nullopt;
    const std::vector<const TensorComparison*> gradients = of_quantity(evidence, Quantity::gradient);
    const auto head = std::find_if(gradients.rbegin(), gradients.rend(), [](const auto* t) {
        return !layer_of(t->name) && !t->rows.empty() && t->order != 1;
    });
    if (head != gradients.rend() && only_targets_differ(**head))
        return Diagnosis{
            "targets",
            fmt::format("The residual stream agrees up to the last layer, the loss does not, and of {}'s "
                        "gradient the rows of some ids alone are wrong: products and softmax are right, the "
                        "targets are not (those of another micro-batch or position, or a wrong row of the "
                        "shard).",
                        (*head)->name)};
    return Diagnosis{
        "loss head",
        "The residual stream agrees up to the last layer, but the loss does not: the final norm, "
        "the head's product, the targets, or the softmax over shards of the vocabulary (maximum, sum, "
        "target's logit, offset of a shard)." +
            also_stale(evidence)};
}

}  // namespace

MaybeDiagnosis diagnose_start(const StepEvidence& evidence) {
    const FirstDifference first = first_difference(evidence);
    if (first.what.empty()) return Diagnosis{"none", ""};
    if (first.tensor && !first.tensor->whole)
        return Diagnosis{
            "missing part",
            fmt::format("The shards of {} do not make up the whole tensor, each element once, on "
                        "both sides.",
                        first.tensor->name)};
    if (evidence.step == 0)
        return Diagnosis{"initial weights",
                         fmt::format("The initial weights differ already, {} of {} tensors: they must be "
                                     "functions of seed, name and global element, never of a rank.",
                                     differing(evidence, Quantity::weight).size(),
                                     of_quantity(evidence, Quantity::weight).size())};
    if (!evidence.bits || up_to_rounding(evidence).differs()) return std::nullopt;
    const bool forward = !differing(evidence, Quantity::activation).empty() || evidence.loss_differs();
    return Diagnosis{
        "order of sums",
        forward
            ? "Everything agrees up to rounding: a sum of the forward pass runs in another order (a "
              "product that is cut differently, a sum over ranks, losses added in another order)."
            : "Everything agrees up to rounding, and loss and activations to the bit: gradients are added "
              "up in another order (micro-batches in an accumulator, copies, data-parallel ranks)."};
}

MaybeDiagnosis diagnose_forward(const StepEvidence& evidence) {
    const std::vector<const TensorComparison*> points = of_quantity(evidence, Quantity::activation);
    const auto first = std::find_if(points.begin(), points.end(), [](const auto* p) { return p->differs; });
    if (first != points.end()) {
        MaybeDiagnosis found = differing_copies(evidence, **first);
        if (!found) found = diagnose_message(evidence, **first);
        if (!found) found = same_on_all_ranks(evidence, **first);
        if (!found)
            found = Diagnosis{"forward pass",
                              fmt::format("The {} is the first part of the forward pass that computes "
                                          "something else; its inputs agree, and so do its copies.",
                                          part_before(**first)) +
                                  coarse_text((*first)->sums.relative_difference()) + also_stale(evidence)};
        found->text += which_samples(evidence, **first);
        return found;
    }
    if (!evidence.loss_differs()) return std::nullopt;
    return loss_rules(evidence, !points.empty());
}

}  // namespace escalier::train
