#include "train/compare_sides.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace escalier::train {

namespace {

bool same_bits(float a, float b) {
    return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(a) && std::isnan(b));
}

}  // namespace

PairSums& PairSums::operator+=(const PairSums& more) {
    aa += more.aa;
    bb += more.bb;
    ab += more.ab;
    dd += more.dd;
    return *this;
}

double PairSums::misfit() const {
    if (bb == 0) return aa == 0 ? 0 : 1;
    const double s = scale();
    return std::sqrt(std::max(0.0, bb - 2 * s * ab + s * s * aa) / bb);
}

double PairSums::relative_difference() const {
    if (dd == 0) return 0;
    return aa > 0 ? std::sqrt(dd / aa) : std::numeric_limits<double>::infinity();
}

bool is_key_bias(const std::string& name) {
    return name.ends_with("attn.c_attn.bias (key)") || name.ends_with("k_proj.bias");
}

namespace {

// The share of |d|^2 that is the same in each of `terms` vectors, whose sum is given.
double common_share(const std::vector<double>& sum, std::int64_t terms, const PairSums& all) {
    double squares = 0;
    for (const double value : sum) squares += value * value;
    return all.dd > 0 ? squares / static_cast<double>(terms) / all.dd : 0;
}

// What reaches queries and keys has gone through the softmax, which hands on each score's difference from the
// mean: the flatter attention is, the more of the terms cancels.
double cancellation(const TensorEntry& tensor) {
    constexpr double of_scores = 4;
    const bool score = tensor.name.ends_with(" (query)") || tensor.name.ends_with(" (key)") ||
                       tensor.name.find("q_proj.") != std::string::npos ||
                       tensor.name.find("k_proj.") != std::string::npos;
    return score && tensor.quantity != Quantity::activation ? of_scores : 1;
}

}  // namespace

SideComparison::SideComparison(SideTensors& tensors, const Rounding& rounding, bool bits,
                               std::int64_t seq_len, const UpdateRule& rule)
    : tensors_(tensors), rounding_(rounding), bits_(bits), seq_len_(seq_len), rule_(rule) {}

// The root mean square of side 0's elements that are not zero: rows of ids that no token names say nothing.
void SideComparison::measure_scales() {
    std::vector<float> block;
    for (std::size_t entry = 0; entry < tensors_.entries().size(); ++entry) {
        const std::int64_t all = tensors_.entries()[entry].hull.rows, step = tensors_.block_rows(entry);
        double squares = 0;
        std::int64_t count = 0;
        for (int side = 0; side < 2 && count == 0; ++side)
            for (std::int64_t first = 0; first < all; first += step) {
                tensors_.fetch(entry, side, first, std::min(step, all - first), SideTensors::Terms::owners,
                               block);
                for (const float value : block) {
                    squares += static_cast<double>(value) * value;
                    count += value != 0.0f;
                }
            }
        scales_.push_back(count ? std::sqrt(squares / static_cast<double>(count)) : 0);
    }
}

// The entry of another quantity of the same parameter; entries().size() where there is none.
std::size_t SideComparison::entry_of(Quantity quantity, std::size_t like) const {
    const std::vector<TensorEntry>& entries = tensors_.entries();
    const TensorEntry& wanted = entries[like];
    return static_cast<std::size_t>(std::find_if(entries.begin(), entries.end(),
                                                 [&](const TensorEntry& entry) {
                                                     return entry.quantity == quantity &&
                                                            entry.order == wanted.order &&
                                                            entry.name == wanted.name;
                                                 }) -
                                    entries.begin());
}

// What the sums of a key bias's gradient cancel from has the size of the query bias's gradient.
double SideComparison::scale_of(std::size_t entry) const {
    if (entry > 0 && is_key_bias(tensors_.entries()[entry].name)) {
        const double query = scales_[entry - 1];
        const double values = entry + 1 < scales_.size() ? scales_[entry + 1] : 0;
        return std::max({scales_[entry], query, values});
    }
    return scales_[entry];
}

// By how much the optimizer's last step lowered the weights, decay left out.
void SideComparison::updates(std::size_t entry, int side, std::int64_t first, std::int64_t rows,
                             std::vector<double>& out) {
    std::vector<float> m, v;
    out.assign(static_cast<std::size_t>(rows * tensors_.entries()[entry].hull.columns), 0.0);
    if (rule_.step == 0) return;
    if (!rule_.adamw) {
        tensors_.fetch(entry_of(Quantity::gradient, entry), side, first, rows, SideTensors::Terms::owners, m);
        out.assign(m.begin(), m.end());
        for (double& value : out) value *= rule_.lr * rule_.gradient_scale[static_cast<std::size_t>(side)];
        return;
    }
    tensors_.fetch(entry_of(Quantity::first_moment, entry), side, first, rows, SideTensors::Terms::owners, m);
    tensors_.fetch(entry_of(Quantity::second_moment, entry), side, first, rows, SideTensors::Terms::owners,
                   v);
    const auto step = static_cast<double>(rule_.step);
    const double first_part = 1 - std::pow(rule_.beta1, step), second_part = 1 - std::pow(rule_.beta2, step);
    for (std::size_t i = 0; i < m.size(); ++i)
        out[i] = rule_.lr * (m[i] / first_part) / (std::sqrt(v[i] / second_part) + rule_.eps);
}

void SideComparison::allowances(std::size_t entry, std::int64_t first, std::int64_t rows,
                                const std::vector<float>& a, const std::vector<float>& b, Allowance& out,
                                PairSums& change) {
    const TensorEntry& tensor = tensors_.entries()[entry];
    out.explained.assign(a.size(), 0.0);
    out.rounding.resize(a.size());
    const auto larger = [&](std::size_t i) -> double { return std::max(std::abs(a[i]), std::abs(b[i])); };
    if (tensor.quantity != Quantity::weight) {
        const double rho = rounding_.rho(tensor.quantity) * cancellation(tensor), scale = scale_of(entry);
        for (std::size_t i = 0; i < a.size(); ++i) out.rounding[i] = rho * (larger(i) + scale);
        return;
    }
    // What the two sides' updates differ by; then the roundings of an update's arithmetic, a dozen or so.
    std::vector<double> update_a, update_b;
    updates(entry, 0, first, rows, update_a);
    updates(entry, 1, first, rows, update_b);
    for (std::size_t i = 0; i < a.size(); ++i) {
        change.add(-update_a[i], static_cast<double>(b[i]) - a[i]);
        out.explained[i] = std::abs(update_a[i] - update_b[i]);
        out.rounding[i] = std::exp2(-20) * (larger(i) + std::abs(update_a[i]));
    }
}

// In coarse types each element of a gradient may be off by more than all of them together.
void SideComparison::judge_as_whole(const TensorEntry& tensor, TensorComparison& out) const {
    if (tensor.quantity != Quantity::gradient || is_key_bias(tensor.name) || out.sums.aa == 0) return;
    const double whole = rounding_.whole() * cancellation(tensor);
    const double apart = out.sums.relative_difference() / whole;
    if (!(apart > 1 && apart > out.worst)) return;
    out.worst = apart;
    out.as_whole = true;
    out.difference = std::sqrt(out.sums.dd);
    out.allowed = whole * std::sqrt(out.sums.aa);
}

TensorComparison SideComparison::compare(std::size_t entry) {
    const TensorEntry& tensor = tensors_.entries()[entry];
    TensorComparison out;
    out.quantity = tensor.quantity;
    out.order = tensor.order;
    out.name = tensor.name;
    out.hull = tensor.hull;
    out.whole = tensor.whole[0] && tensor.whole[1];
    for (std::size_t side = 0; tensor.quantity == Quantity::gradient && side < 2; ++side)
        for (const Holder& holder : tensor.holders[side])
            if (holder.owner) out.boxes[side].push_back({holder.box, holder.place.tp_rank, {}, 0});
    const bool activation = is_stream(tensor.quantity);
    const std::int64_t columns = tensor.hull.columns;
    const std::int64_t channels = activation ? columns / seq_len_ : columns;
    if (columns > 1) out.rows.resize(static_cast<std::size_t>(tensor.hull.rows));
    if (activation) out.tokens.resize(static_cast<std::size_t>(tensor.hull.rows * seq_len_));
    std::vector<double> over_samples(activation ? static_cast<std::size_t>(columns) : 0, 0.0);
    std::vector<double> over_tokens(activation ? static_cast<std::size_t>(channels) : 0, 0.0);

    std::vector<float> a, b, before_a, before_b;
    Allowance allowed;
    const std::int64_t step = tensors_.block_rows(entry);
    const bool has_before = activation && entry > 0 &&
                            tensors_.entries()[entry - 1].quantity == tensor.quantity &&
                            tensors_.entries()[entry - 1].hull == tensor.hull;
    for (std::int64_t first = 0; first < tensor.hull.rows; first += step) {
        const std::int64_t rows = std::min(step, tensor.hull.rows - first);
        tensors_.fetch(entry, 0, first, rows, SideTensors::Terms::owners, a);
        tensors_.fetch(entry, 1, first, rows, SideTensors::Terms::owners, b);
        allowances(entry, first, rows, a, b, allowed, out.change);
        if (has_before) {
            tensors_.fetch(entry - 1, 0, first, rows, SideTensors::Terms::owners, before_a);
            tensors_.fetch(entry - 1, 1, first, rows, SideTensors::Terms::owners, before_b);
            for (std::size_t i = 0; i < a.size(); ++i)
                out.change.add(static_cast<double>(a[i]) - before_a[i],
                               static_cast<double>(b[i]) - before_b[i]);
        }
        for (std::int64_t row = first; row < first + rows; ++row)
            for (std::int64_t column = 0; column < columns; ++column) {
                const auto at = static_cast<std::size_t>((row - first) * columns + column);
                const double difference = std::abs(static_cast<double>(a[at]) - static_cast<double>(b[at]));
                out.unequal_bits += !same_bits(a[at], b[at]);
                const double left = std::max(0.0, difference - allowed.explained[at]);
                double ratio = left == 0 ? 0 : left / allowed.rounding[at];
                if (!std::isfinite(difference))
                    ratio = same_bits(a[at], b[at]) ? 0 : std::numeric_limits<double>::infinity();
                if (ratio > out.worst) {
                    out.worst = ratio;
                    out.difference = difference;
                    out.allowed = allowed.explained[at] + allowed.rounding[at];
                    out.row = row + tensor.hull.row;
                    out.column = column + tensor.hull.column;
                }
                out.sums.add(a[at], b[at]);
                if (!out.rows.empty()) out.rows[static_cast<std::size_t>(row)].add(a[at], b[at]);
                for (auto& boxes : out.boxes)
                    for (BoxSums& box : boxes) {
                        const Rect& r = box.box;
                        const std::int64_t y = row + tensor.hull.row - r.row;
                        const std::int64_t x = column + tensor.hull.column - r.column;
                        if (y < 0 || y >= r.rows || x < 0 || x >= r.columns) continue;
                        box.sums.add(a[at], b[at]);
                        box.worst = std::max(box.worst, ratio);
                    }
                if (!activation) continue;
                out.tokens[static_cast<std::size_t>(row * seq_len_ + column / channels)].add(a[at], b[at]);
                over_samples[static_cast<std::size_t>(column)] += static_cast<double>(b[at]) - a[at];
                over_tokens[static_cast<std::size_t>(column % channels)] +=
                    static_cast<double>(b[at]) - a[at];
            }
    }
    judge_as_whole(tensor, out);
    out.alike_over_samples = common_share(over_samples, tensor.hull.rows, out.sums);
    out.alike_over_tokens = common_share(over_tokens, tensor.hull.rows * (columns / channels), out.sums);
    return out;
}

std::vector<PairSums> SideComparison::received_rows(std::size_t entry, int side) {
    const Rect& hull = tensors_.entries()[entry].hull;
    std::vector<PairSums> out(static_cast<std::size_t>(hull.rows));
    std::vector<float> sent, received;
    const std::int64_t step = tensors_.block_rows(entry);
    for (std::int64_t first = 0; first < hull.rows; first += step) {
        const std::int64_t rows = std::min(step, hull.rows - first);
        tensors_.fetch(entry, side, first, rows, SideTensors::Terms::owners, sent);
        tensors_.fetch(entry, side, first, rows, SideTensors::Terms::received, received);
        for (std::size_t i = 0; i < sent.size(); ++i)
            out[static_cast<std::size_t>(first) + i / static_cast<std::size_t>(hull.columns)].add(
                sent[i], received[i]);
    }
    return out;
}

double SideComparison::distance_of_sum(std::size_t entry, int side, SideTensors::Terms terms) {
    const TensorEntry& tensor = tensors_.entries()[entry];
    const bool has_before = is_stream(tensor.quantity) && tensor.order > 0;
    PairSums sums;
    std::vector<float> sum, other, before_sum, before;
    const std::int64_t all = tensor.hull.rows, step = tensors_.block_rows(entry);
    for (std::int64_t first = 0; first < all; first += step) {
        const std::int64_t rows = std::min(step, all - first);
        tensors_.fetch(entry, side, first, rows, terms, sum);
        tensors_.fetch(entry, 1 - side, first, rows, SideTensors::Terms::owners, other);
        before_sum.assign(sum.size(), 0.0f);
        before = before_sum;
        if (has_before) {
            tensors_.fetch(entry - 1, side, first, rows, terms, before_sum);
            tensors_.fetch(entry - 1, 1 - side, first, rows, SideTensors::Terms::owners, before);
        }
        for (std::size_t i = 0; i < sum.size(); ++i)
            sums.add(static_cast<double>(other[i]) - before[i], static_cast<double>(sum[i]) - before_sum[i]);
    }
    return sums.relative_difference();
}

void SideComparison::look_at_copies(std::size_t entry, const SideTensors::Deviations& deviations,
                                    TensorComparison& result) {
    using Terms = SideTensors::Terms;
    for (int side = 0; side < 2; ++side) {
        const std::vector<Holder>& holders =
            tensors_.entries()[entry].holders[static_cast<std::size_t>(side)];
        const std::vector<double>& own = deviations[static_cast<std::size_t>(side)][entry];
        CopyFindings& found = result.copies[static_cast<std::size_t>(side)];
        bool over_both = false;
        for (std::size_t i = 0; i < holders.size(); ++i) {
            found.deviation = std::max(found.deviation, own[i]);
            if (own[i] == 0) continue;
            const auto owner = std::find_if(holders.begin(), holders.end(), [&](const Holder& h) {
                return h.owner && h.box == holders[i].box;
            });
            if (holders[i].stage_copy) {
                found.over_stages = true;
                continue;
            }
            const bool over_tp = holders[i].place.tp_rank != owner->place.tp_rank,
                       over_dp = holders[i].place.dp_rank != owner->place.dp_rank;
            found.over_tp |= over_tp && !over_dp;
            found.over_dp |= over_dp && !over_tp;
            over_both |= over_dp && over_tp;
            found.over_copies |= holders[i].place.pp_rank != owner->place.pp_rank;
        }
        // Where the owner agrees with the copy's own replica and with its peers in others, it differs from
        // both.
        if (over_both && !found.over_tp && !found.over_dp && !found.over_copies)
            found.over_tp = found.over_dp = true;
        const bool sums = result.quantity == Quantity::gradient || is_stream(result.quantity);
        if (!sums) continue;
        if (found.over_tp) found.tp_sum = distance_of_sum(entry, side, Terms::tensor_ranks);
        if (found.over_dp) found.dp_sum = distance_of_sum(entry, side, Terms::replicas);
        if (found.over_copies) found.copies_sum = distance_of_sum(entry, side, Terms::copies);
        if (found.over_stages && is_stream(result.quantity))
            result.received[static_cast<std::size_t>(side)] = received_rows(entry, side);
        else if (found.over_stages)
            found.tied_sum = distance_of_sum(entry, side, Terms::tied);
    }
}

std::vector<TensorComparison> SideComparison::run() {
    measure_scales();
    const SideTensors::Deviations deviations = tensors_.deviations();
    std::vector<TensorComparison> out;
    for (std::size_t entry = 0; entry < tensors_.entries().size(); ++entry) {
        TensorComparison& result = out.emplace_back(compare(entry));
        look_at_copies(entry, deviations, result);
        const bool exempt = !bits_ && result.quantity == Quantity::weight && is_key_bias(result.name);
        result.differs = !result.whole || result.copies[0].deviation > 0 || result.copies[1].deviation > 0 ||
                         (bits_ ? result.unequal_bits > 0 : result.worst > 1 && !exempt);
    }
    return out;
}

}  // namespace escalier::train
