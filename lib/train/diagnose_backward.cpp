// Rules for gradients, where the forward passes agree.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "train/diagnose.h"

namespace escalier::train {

namespace {

using List = std::vector<const TensorComparison*>;

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

// Parameters that every tensor rank holds whole.
bool replicated(const TensorComparison& tensor) {
    return tensor.boxes[0].size() == 1 && tensor.boxes[1].size() == 1;
}

bool is_norm(const std::string& name) {
    return has(name, "ln_") || has(name, "layernorm") || has(name, "model.norm");
}

bool is_head_norm(const std::string& name) {  // one gain for all heads (Qwen3)
    return has(name, "q_norm") || has(name, "k_norm");
}

bool is_table(const std::string& name) {
    return has(name, "wte.weight") || has(name, "embed_tokens.weight");
}

std::string names(const List& tensors) {
    std::string text;
    for (std::size_t i = 0; i < std::min<std::size_t>(tensors.size(), 3); ++i)
        text += (i ? ", " : "") + tensors[i]->name;
    if (tensors.size() > 3) text += fmt::format(" and {} more", tensors.size() - 3);
    return text;
}

// Gradients that rounding alone makes have no factor.
List with_signal(List tensors) {
    std::erase_if(tensors, [](const auto* tensor) { return is_key_bias(tensor->name); });
    return tensors;
}

// "of every tensor", "of stage 1 of B alone", or nothing.
std::string extent_text(const StepEvidence& evidence, const List& all_wrong) {
    const List wrong = with_signal(all_wrong);
    const List all = with_signal(of_quantity(evidence, Quantity::gradient));
    if (wrong.size() == all.size()) return "of every tensor";
    std::set<std::int64_t> stages;
    for (const auto* tensor : wrong) stages.insert(stage_of(evidence, *tensor));
    const auto in_stages = std::count_if(all.begin(), all.end(), [&](const auto* tensor) {
        return stages.contains(stage_of(evidence, *tensor));
    });
    if (static_cast<std::size_t>(in_stages) == wrong.size() && stages.size() == 1)
        return fmt::format("of every tensor of stage {} of B, and of no other,", *stages.begin());
    return fmt::format("of {} of {} tensors ({})", wrong.size(), all.size(), names(wrong));
}

// ---- copies that differ ----

// Copies that should have been summed, and what is said of them: where they add up to the other grid's
// gradient, and where not.
struct SummedCopies {
    bool CopyFindings::*apart;
    std::optional<double> CopyFindings::*sum;
    const char *missing, *missing_text;
    const char *apart_cause, *apart_text;
};

MaybeDiagnosis summed_copies_differ(const StepEvidence& evidence, const List& wrong,
                                    const SummedCopies& kind) {
    for (std::size_t side = 0; side < 2; ++side) {
        List apart, summing;
        for (const auto* tensor : wrong) {
            const CopyFindings& copies = tensor->copies[side];
            if (!(copies.*kind.apart)) continue;
            apart.push_back(tensor);
            if (copies.*kind.sum && *(copies.*kind.sum) < alike) summing.push_back(tensor);
        }
        if (apart.empty()) continue;
        const bool missing = 2 * summing.size() > apart.size();
        return Diagnosis{missing ? kind.missing : kind.apart_cause,
                         fmt::format(fmt::runtime(missing ? kind.missing_text : kind.apart_text),
                                     extent_text(evidence, missing ? summing : apart), side_name(side))};
    }
    return std::nullopt;
}

MaybeDiagnosis replicas_differ(const StepEvidence& evidence, const List& wrong) {
    return summed_copies_differ(
        evidence, wrong,
        {&CopyFindings::over_dp, &CopyFindings::dp_sum, "missing sum over dp",
         "The gradient {} differs between the data-parallel replicas of {}, and the replicas' gradients add "
         "up to the other grid's: the sum over dp is missing.",
         "replicas differ",
         "The gradient {} differs between the data-parallel replicas of {}, but they do not add up to the "
         "other grid's: something is added after the sum over dp, or only some replicas got it."});
}

MaybeDiagnosis model_copies_differ(const StepEvidence& evidence, const List& wrong) {
    return summed_copies_differ(
        evidence, wrong,
        {&CopyFindings::over_copies, &CopyFindings::copies_sum, "missing sum over copies",
         "The gradient {} differs between the two copies of the model on {}, and the copies' gradients add "
         "up to the other grid's: their sum is missing.",
         "model copies differ",
         "The gradient {} differs between the two copies of the model on {}, but they do not add up to the "
         "other grid's: something is added after the sum over the copies, or only one of them got it."});
}

MaybeDiagnosis tied_copies_differ(const StepEvidence&, const List& wrong) {
    for (std::size_t side = 0; side < 2; ++side)
        for (const auto* tensor : wrong) {
            const CopyFindings& copies = tensor->copies[side];
            if (!copies.over_stages) continue;
            if (copies.tied_sum && *copies.tied_sum < alike)
                return Diagnosis{
                    "missing tied sum",
                    fmt::format("The first and the last stage of {} hold different gradients of the "
                                "tied {}, and the two add up to the other grid's: their sum is "
                                "missing.",
                                side_name(side), tensor->name)};
            return Diagnosis{"tied copies differ",
                             fmt::format("The first and the last stage of {} hold different gradients of the "
                                         "tied {}.",
                                         side_name(side), tensor->name)};
        }
    return std::nullopt;
}

// A norm's own sum, or that of what flows back into it: then what lies below is wrong too.
Diagnosis norm_copies(const TensorComparison& tensor, std::size_t side, const List& wrong) {
    const bool below = std::any_of(wrong.begin(), wrong.end(), [&](const auto* other) {
        return other->order < tensor.order && !is_head_norm(other->name);
    });
    const std::string adds_up = tensor.copies[side].tp_sum && *tensor.copies[side].tp_sum < alike
                                    ? ", and their parts add up to the other grid's"
                                    : "";
    if (is_head_norm(tensor.name) || !below)
        return {"gradient not summed over tp",
                fmt::format("Tensor ranks of {} hold different gradients of {}{}: the sum over tp of that "
                            "parameter's gradient is missing.",
                            side_name(side), tensor.name, adds_up)};
    const std::optional<std::int64_t> layer = layer_of(tensor.name);
    const bool mlp = has(tensor.name, "ln_2") || has(tensor.name, "post_attention");
    const std::string where =
        layer ? fmt::format("the {} of layer {}", mlp ? "mlp" : "attention", *layer) : "the loss head";
    return {"missing sum over tp in backward",
            fmt::format("Tensor ranks of {} hold different gradients of {}{}, and so of all that lies below: "
                        "the backward sum over tp of what flows back out of {} is missing.",
                        side_name(side), tensor.name, adds_up, where)};
}

MaybeDiagnosis tensor_ranks_differ(const StepEvidence&, const List& wrong) {
    for (std::size_t side = 0; side < 2; ++side) {
        const auto differs = [&](const auto* tensor) { return tensor->copies[side].over_tp; };
        // In backward order the highest comes first.
        const auto norm = std::find_if(wrong.rbegin(), wrong.rend(), [&](const auto* tensor) {
            return differs(tensor) && (is_norm(tensor->name) || is_head_norm(tensor->name));
        });
        const auto kv = std::find_if(wrong.begin(), wrong.end(), [&](const auto* tensor) {
            return differs(tensor) && !replicated(*tensor);
        });
        const auto any = std::find_if(wrong.rbegin(), wrong.rend(), differs);
        if (any == wrong.rend()) continue;
        if (norm != wrong.rend() && (kv == wrong.end() || !is_head_norm((*norm)->name)))
            return norm_copies(**norm, side, wrong);
        const TensorComparison& tensor = kv != wrong.end() ? **kv : **any;
        const bool key_value = has(tensor.name, "k_proj") || has(tensor.name, "v_proj") ||
                               has(tensor.name, "(key)") || has(tensor.name, "(value)");
        const bool adds_up = tensor.copies[side].tp_sum && *tensor.copies[side].tp_sum < alike;
        if (key_value)
            return Diagnosis{
                "missing sum over kv copies",
                fmt::format("Tensor ranks of {} that share key/value heads hold different gradients "
                            "of {}{}: the sum over the copies of a head is missing.",
                            side_name(side), tensor.name,
                            adds_up ? ", and they add up to the other grid's" : "")};
        return Diagnosis{"gradient not summed over tp",
                         fmt::format("Tensor ranks of {} hold different gradients of {}{}.", side_name(side),
                                     tensor.name, adds_up ? ", which add up to the other grid's" : "")};
    }
    return std::nullopt;
}

// ---- factors ----

bool scaled(const TensorComparison& tensor) {
    return tensor.sums.aa > 0 && tensor.sums.misfit() < alike && !near(tensor.sums.scale(), 1, alike);
}

// A factor per stage of side 1 that grows from one to the next.
MaybeDiagnosis factor_by_depth(const StepEvidence& evidence, const List& wrong) {
    const std::size_t stages = evidence.grids[1].layers_per_stage.size();
    std::vector<std::optional<double>> factors(stages);
    for (const auto* tensor : with_signal(of_quantity(evidence, Quantity::gradient))) {
        if (is_table(tensor->name)) continue;  // two parts of different depth where tied
        const auto stage = static_cast<std::size_t>(stage_of(evidence, *tensor));
        if (!(tensor->sums.misfit() < alike)) return std::nullopt;
        if (!factors[stage]) factors[stage] = tensor->sums.scale();
        if (!near(*factors[stage], tensor->sums.scale(), 10 * alike)) return std::nullopt;
    }
    for (const auto& factor : factors)
        if (!factor) return std::nullopt;
    if (stages < 2 || !near(*factors.back(), 1, alike) || near(*factors[stages - 2], 1, alike))
        return std::nullopt;
    const double step = *factors[stages - 2];
    for (std::size_t stage = 0; stage + 1 < stages; ++stage)
        if (!near(*factors[stage] / *factors[stage + 1], step, 10 * alike)) {
            if (near(*factors[stage], *factors[stage + 1], 10 * alike)) continue;
            return std::nullopt;
        }
    const std::string text = factor_text(step, evidence.grids[1]);
    return Diagnosis{
        "scaled again at every stage",
        fmt::format("Gradients of B are right on the last stage and {} times the other grid's on the "
                    "stage before it, and so on further down ({} of {} tensors): a stage scales the "
                    "gradient that it passes on once more; only the loss may scale.",
                    text, wrong.size(), of_quantity(evidence, Quantity::gradient).size())};
}

MaybeDiagnosis factors(const StepEvidence& evidence, const List& all_wrong) {
    const List wrong = with_signal(all_wrong);
    if (wrong.empty() || !std::all_of(wrong.begin(), wrong.end(), [](const auto* t) { return scaled(*t); }))
        return std::nullopt;
    const double factor = wrong.front()->sums.scale();
    if (!std::all_of(wrong.begin(), wrong.end(),
                     [&](const auto* t) { return near(t->sums.scale(), factor, 10 * alike); }))
        return std::nullopt;
    const std::string extent = extent_text(evidence, wrong);
    const std::string text = factor_text(factor, evidence.grids[1]);
    const bool only_replicated = std::all_of(
        wrong.begin(), wrong.end(), [](const auto* t) { return replicated(*t) && !is_table(t->name); });
    const std::int64_t tp = evidence.grids[1].tp;
    if (only_replicated && tp > 1 && near(factor, static_cast<double>(tp)) &&
        wrong.size() < of_quantity(evidence, Quantity::gradient).size())
        return Diagnosis{
            "replicated gradient summed over tp",
            fmt::format("The gradient {} is tp = {} times the other grid's: every tensor rank holds "
                        "the whole gradient of it already, so the sum over tp counts it {} times.",
                        extent, tp, tp)};
    if (factor > 1)
        return Diagnosis{
            "counted more than once",
            fmt::format("The gradient {} is {} times the other grid's: a sum is run more than once, "
                        "or a division is missing.",
                        extent, text)};
    return Diagnosis{
        "scaled once too often",
        fmt::format("The gradient {} is {} times the other grid's: it is divided once more than the "
                    "loss does, or the parts of some ranks are missing.",
                    extent, text)};
}

// ---- patterns within tensors ----

// What experiments have shown of gradients whose forward passes agree.
MaybeDiagnosis without_features(const StepEvidence& evidence, const List& wrong) {
    const auto gone = [&](const char* what) {
        const auto found = evidence.equal_without.find(what);
        return found != evidence.equal_without.end() && found->second;
    };
    if (gone("dropout"))
        return Diagnosis{
            "other dropout mask",
            fmt::format("The gradient {} differs though the forward passes agree, and without dropout "
                        "it does not: the backward pass, or the forward pass that is computed anew, "
                        "draws another mask than the first forward pass.",
                        extent_text(evidence, wrong))};
    if (gone("recompute"))
        return Diagnosis{"recompute",
                         fmt::format("The gradient {} differs though the forward passes agree, and without "
                                     "recompute it does not: what is computed anew is not what was there.",
                                     extent_text(evidence, wrong))};
    return std::nullopt;
}

// What flows back: the first point of the residual stream's gradient that differs.
MaybeDiagnosis stream_rules(const StepEvidence& evidence) {
    const List points = differing(evidence, Quantity::activation_gradient);
    if (points.empty()) return std::nullopt;
    const TensorComparison& point = *points.front();
    const std::int64_t below = 2 * evidence.layers - point.order;  // the point's place from the bottom
    const std::string part = point.order == 0
                                 ? "loss head"
                                 : fmt::format("{} of layer {}", below % 2 ? "mlp" : "attention", below / 2);
    for (std::size_t side = 0; side < 2; ++side)
        if (point.copies[side].over_tp)
            return Diagnosis{
                "missing sum over tp in backward",
                fmt::format(
                    "Tensor ranks of {} hold different gradients of the residual stream below the {}{}: "
                    "the backward sum over tp there is missing.",
                    side_name(side), part,
                    point.copies[side].tp_sum && *point.copies[side].tp_sum < alike
                        ? ", and their parts add up to the other grid's"
                        : "")};
    const PairSums& change = point.order == 0 ? point.sums : point.change;
    if (change.misfit() < alike && !near(change.scale(), 1, alike))
        return Diagnosis{
            change.scale() > 1 ? "counted twice in backward" : "scaled in backward",
            fmt::format("What flows back out of the {} is {} times the other grid's: it is summed or "
                        "scaled once too often there.",
                        part, factor_text(change.scale(), evidence.grids[1]))};
    const double whole = point.sums.scale();
    if (point.sums.misfit() < alike && !near(whole, 1, alike))
        return Diagnosis{"scaled in backward",
                         fmt::format("The whole gradient of the residual stream below the {} is {} times the "
                                     "other grid's.",
                                     part, factor_text(whole, evidence.grids[1]))};
    if (const std::optional<MovedRows> moved = moved_rows(point.rows, alike))
        return Diagnosis{
            "micro-batch order",
            fmt::format("What flows back out of the {} stands with the wrong samples ({}, {} of {} in all): "
                        "micro-batches are taken in another order there.",
                        part, moved->example, moved->count, point.rows.size())};
    return Diagnosis{
        "backward pass",
        fmt::format("The {} is the first part of the backward pass that computes something else; what "
                    "flows into it agrees.{}",
                    part, coarse_text(point.sums.relative_difference()))};
}

// The first point of what flows back that differs, where it is a message.
MaybeDiagnosis message_rules(const StepEvidence& evidence, const List&) {
    const List points = differing(evidence, Quantity::activation_gradient);
    if (points.empty()) return std::nullopt;
    return diagnose_message(evidence, *points.front());
}

// What flows back was looked at and agrees everywhere: only the halves that make weight gradients are wrong.
MaybeDiagnosis weight_halves(const StepEvidence& evidence, const List& wrong) {
    if (of_quantity(evidence, Quantity::activation_gradient).empty()) return std::nullopt;
    if (!differing(evidence, Quantity::activation_gradient).empty() || wrong.empty()) return std::nullopt;
    const bool matrices =
        std::all_of(wrong.begin(), wrong.end(), [](const auto* tensor) { return !tensor->rows.empty(); });
    PairSums all;
    for (const auto* tensor : wrong) all += tensor->sums;
    return Diagnosis{
        "weight gradient",
        fmt::format("The gradient {} differs in no known pattern though what flows back agrees everywhere: {}"
                    ".{}",
                    extent_text(evidence, wrong),
                    matrices
                        ? "no vector is among them, so what is multiplied with it is wrong, the inputs that "
                          "are kept for it (those of another micro-batch, or overwritten)"
                        : "the accumulator, or what is kept until weight gradients are made (that of "
                          "another micro-batch, or overwritten)",
                    coarse_text(all.relative_difference()))};
}

MaybeDiagnosis single_tensors(const StepEvidence& evidence, const List& wrong) {
    const List signal = with_signal(wrong);
    if (signal.size() != 1) return std::nullopt;
    const TensorComparison& tensor = *signal.front();
    const bool tied =
        is_table(tensor.name) && std::none_of(evidence.tensors.begin(), evidence.tensors.end(),
                                              [](const auto& t) { return has(t.name, "lm_head"); });
    if (is_table(tensor.name) || has(tensor.name, "lm_head"))
        if (MaybeDiagnosis found = diagnose_table(evidence, tensor, tied)) return found;
    return Diagnosis{"one tensor",
                     fmt::format("Only the gradient of {} differs; what flows into it agrees.", tensor.name)};
}

}  // namespace

MaybeDiagnosis diagnose_backward(const StepEvidence& evidence) {
    const List wrong = differing(evidence, Quantity::gradient);
    const List points = differing(evidence, Quantity::activation_gradient);
    if (wrong.empty() && points.empty()) return std::nullopt;
    for (const auto rule : {replicas_differ, model_copies_differ, tensor_ranks_differ, tied_copies_differ,
                            factor_by_depth, message_rules, factors})
        if (MaybeDiagnosis found = rule(evidence, wrong)) return found;
    if (MaybeDiagnosis found = single_tensors(evidence, wrong)) return found;
    if (!evidence.missing_samples.empty())
        return Diagnosis{
            "missing samples",
            fmt::format("The gradient {} is the one that the batch has without {}: that part was "
                        "never added, or was overwritten.",
                        extent_text(evidence, wrong), evidence.missing_samples)};
    if (MaybeDiagnosis found = without_features(evidence, wrong)) return found;
    if (MaybeDiagnosis found = stream_rules(evidence)) return found;
    if (MaybeDiagnosis found = weight_halves(evidence, wrong)) return found;
    return Diagnosis{"gradient",
                     fmt::format("The gradient {} differs in no known pattern, while loss and copies "
                                 "agree.",
                                 extent_text(evidence, wrong))};
}

}  // namespace escalier::train
