#include "train/diagnose.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace escalier::train {

namespace {

bool apart(double a, double b, double relative, bool bits) {
    if (a == b || (std::isnan(a) && std::isnan(b))) return false;
    return bits || !(std::abs(a - b) <= relative * std::max(std::abs(a), std::abs(b)));
}

// Place in the order of computation: forward, loss, backward from the last layer down, update.
std::tuple<int, std::int64_t, std::int64_t> place_of(const TensorComparison& tensor, std::int64_t layers) {
    switch (tensor.quantity) {
        case Quantity::activation:
            return {0, tensor.order, 0};
        case Quantity::activation_gradient:  // two points per layer, from behind the last one down
            return {2, 2 * tensor.order + 1, 0};
        case Quantity::gradient: {
            const std::optional<std::int64_t> layer = layer_of(tensor.name);
            const bool head = !layer && tensor.order > 1;
            // Norm and attention of a layer lie between its two points; all of a layer's after its first.
            const std::int64_t at = head ? 0 : layer ? 4 * (layers - *layer - 1) + 4 : 4 * layers + 4;
            return {2, at, -tensor.order};
        }
        case Quantity::first_moment:
            return {4, tensor.order, 0};
        case Quantity::second_moment:
            return {4, tensor.order, 1};
        case Quantity::weight:
            return {4, tensor.order, 2};
    }
    return {};
}

std::string described(const TensorComparison& tensor) {
    const bool stream =
        tensor.quantity == Quantity::activation || tensor.quantity == Quantity::activation_gradient;
    return stream ? tensor.name : std::string(quantity_name(tensor.quantity)) + " of " + tensor.name;
}

}  // namespace

bool StepEvidence::loss_differs() const {
    return step > 0 && apart(loss[0], loss[1], loss_allowed, bits);
}

bool StepEvidence::norm_differs() const {
    if (step == 0) return false;
    for (std::size_t side = 0; side < 2; ++side)
        if (const std::optional<double> own = norm_of_gradients(*this, side))
            if (std::isfinite(norm[side]) && !near(norm[side], *own, own_norm_allowed)) return true;
    return apart(norm[0], norm[1], norm_allowed, bits);
}

bool StepEvidence::differs() const {
    return loss_differs() || norm_differs() ||
           std::any_of(tensors.begin(), tensors.end(), [](const auto& tensor) { return tensor.differs; });
}

FirstDifference first_difference(const StepEvidence& evidence) {
    using Place = std::tuple<int, std::int64_t, std::int64_t>;
    Place first{std::numeric_limits<int>::max(), 0, 0};
    FirstDifference out;
    const auto offer = [&](const Place& place, const TensorComparison* tensor, const std::string& what) {
        if (place >= first) return;
        first = place;
        out = {tensor, what};
    };
    if (evidence.loss_differs()) offer({1, 0, 0}, nullptr, "loss");
    if (evidence.norm_differs()) offer({3, 0, 0}, nullptr, "gradient norm");
    for (const TensorComparison& tensor : evidence.tensors)
        if (tensor.differs) offer(place_of(tensor, evidence.layers), &tensor, described(tensor));
    return out;
}

std::optional<double> norm_of_gradients(const StepEvidence& evidence, std::size_t side) {
    double sum = 0;
    const std::vector<const TensorComparison*> gradients = of_quantity(evidence, Quantity::gradient);
    for (const TensorComparison* tensor : gradients) sum += side ? tensor->sums.bb : tensor->sums.aa;
    if (gradients.empty() || !std::isfinite(sum)) return std::nullopt;
    return std::sqrt(sum);
}

std::vector<const TensorComparison*> of_quantity(const StepEvidence& evidence, Quantity quantity) {
    std::vector<const TensorComparison*> out;
    for (const TensorComparison& tensor : evidence.tensors)
        if (tensor.quantity == quantity) out.push_back(&tensor);
    return out;
}

std::vector<const TensorComparison*> differing(const StepEvidence& evidence, Quantity quantity) {
    std::vector<const TensorComparison*> out = of_quantity(evidence, quantity);
    std::erase_if(out, [](const TensorComparison* tensor) { return !tensor->differs; });
    return out;
}

std::string side_name(std::size_t side) {
    return side == 0 ? "A" : "B";
}

std::optional<std::int64_t> layer_of(const std::string& name) {
    for (const char* prefix : {"transformer.h.", "model.layers."})
        if (name.starts_with(prefix)) return std::stoll(name.substr(std::string(prefix).size()));
    return std::nullopt;
}

bool near(double value, double wanted, double tolerance) {
    return std::abs(value - wanted) <= tolerance * std::abs(wanted);
}

std::string factor_text(double factor, const GridFacts& grid) {
    std::vector<std::string> names;
    const auto offer = [&](double value, const std::string& name) {
        if (value != 1 && near(factor, value)) names.push_back(name);
    };
    const auto both = [&](std::int64_t size, const std::string& name) {
        offer(static_cast<double>(size), name);
        offer(1.0 / static_cast<double>(size), "1/" + name);
    };
    both(grid.tp, "tp");
    both(grid.dp, "dp");
    both(grid.micro_batches, "micro-batches");
    both(grid.micro_batches * grid.dp, "(micro-batches x dp)");
    both(grid.micro_batch, "micro-batch size");
    both(grid.pp, "pp");
    const double whole = std::round(factor >= 1 ? factor : 1 / factor);
    std::string text = fmt::format("{:.4g}", factor);
    if (whole != 1 && near(factor >= 1 ? factor : 1 / factor, whole))
        text = factor >= 1 ? fmt::format("{:.0f}", whole) : fmt::format("1/{:.0f}", whole);
    for (std::size_t i = 0; i < names.size(); ++i) text += (i ? ", or " : " (= ") + names[i];
    return names.empty() ? text : text + ")";
}

std::int64_t stage_of(const StepEvidence& evidence, const TensorComparison& parameter) {
    const std::vector<std::int64_t>& layers = evidence.grids[1].layers_per_stage;
    const auto last = static_cast<std::int64_t>(layers.size()) - 1;
    const std::optional<std::int64_t> layer = layer_of(parameter.name);
    if (!layer) return parameter.order <= 1 ? 0 : last;
    std::int64_t stage = 0, end = layers.empty() ? 0 : layers[0];
    while (*layer >= end && stage < last) end += layers[static_cast<std::size_t>(++stage)];
    return stage;
}

std::string coarse_type(double relative_difference) {
    // An error spread evenly over half a place up and down has a root mean square of 0.29 places, and a place
    // is one or two units of roundoff of the value.
    const auto fits = [&](int bits) {
        const double units = relative_difference * std::exp2(bits);
        return units > 0.25 && units < 0.65;
    };
    return fits(8) ? "bf16" : fits(11) ? "fp16" : "";
}

std::string coarse_text(double relative_difference) {
    const std::string type = coarse_type(relative_difference);
    return type.empty() ? "" : " The values lie as far apart as rounding to " + type + " leaves them.";
}

std::optional<MovedRows> moved_rows(const std::vector<PairSums>& rows, double tolerance) {
    MovedRows out{0, ""};
    for (std::size_t row = 0; row < rows.size(); ++row) {
        if (rows[row].relative_difference() <= tolerance) continue;
        const auto from = std::find_if(rows.begin(), rows.end(), [&](const PairSums& other) {
            return &other != &rows[row] && near(rows[row].bb, other.aa, 1e-5);
        });
        if (from == rows.end()) return std::nullopt;
        if (out.count++ == 0)
            out.example = fmt::format("sample {} has that of sample {}", row, from - rows.begin());
    }
    if (out.count == 0) return std::nullopt;
    return out;
}

StepEvidence up_to_rounding(StepEvidence evidence) {
    evidence.bits = false;
    for (TensorComparison& tensor : evidence.tensors) {
        const bool exempt = tensor.quantity == Quantity::weight && is_key_bias(tensor.name);
        tensor.differs = !tensor.whole || (tensor.worst > 1 && !exempt) || tensor.copies[0].deviation > 0 ||
                         tensor.copies[1].deviation > 0;
    }
    return evidence;
}

Diagnosis diagnose(const StepEvidence& evidence) {
    if (MaybeDiagnosis found = diagnose_start(evidence)) return *found;
    const StepEvidence large = up_to_rounding(evidence);
    for (const auto rule : {diagnose_forward, diagnose_backward, diagnose_norm, diagnose_update})
        if (MaybeDiagnosis found = rule(large)) return *found;
    return {"unknown", "No rule knows this pattern; look at the code behind the first tensor that differs."};
}

}  // namespace escalier::train
