#include "sweep/agreement.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "config/dump.h"

namespace escalier::sweep {

namespace {

constexpr double rounding = 1e-5;            // of a loss, relative
constexpr std::int64_t compared_steps = 10;  // beyond them rounding grows into another course

bool starts_with(const std::string& text, const std::string& start) {
    return text.compare(0, start.size(), start) == 0;
}

// Keys that decide how and where the same numbers are computed, or what is kept and shown of them.
// train.steps is in the learning rate; runs of other lengths are compared over the steps in common.
bool is_of_no_result(const std::string& key) {
    if (key == "run.seed") return false;
    for (const char* start :
         {"version", "run.", "parallel.", "pipeline.", "train.micro_batch", "train.recompute", "train.steps",
          "checkpoint.", "log.", "eval.", "sweep.", "model.preset", "data.allow_change"})
        if (starts_with(key, start)) return true;
    return false;
}

bool same(double a, double b) {
    return a == b || (std::isnan(a) && std::isnan(b));
}

struct Difference {
    std::int64_t step = 0;
    double there = 0, here = 0;
    const char* what = "loss";
};

struct StepPair {
    std::int64_t step;
    const report::StepRow &there, &here;
};

std::vector<StepPair> in_common(const RunMetrics& there, const RunMetrics& here) {
    std::vector<StepPair> pairs;
    for (const auto& [step, metrics] : here.steps) {
        const auto other = there.steps.find(step);
        if (other != there.steps.end()) pairs.push_back({step, other->second, metrics});
    }
    return pairs;
}

Comparison differing(const ComparedRun& there, const Difference& d) {
    return {Agreement::differs, fmt::format("DIFFERS from {} at step {}: {} {} against {} there", there.name,
                                            d.step, d.what, d.here, d.there)};
}

Comparison compare_bits(const ComparedRun& there, const std::vector<StepPair>& pairs) {
    for (const StepPair& pair : pairs) {
        if (!same(pair.there.loss, pair.here.loss))
            return differing(there, {pair.step, pair.there.loss, pair.here.loss, "loss"});
        if (!same(pair.there.grad_norm, pair.here.grad_norm))
            return differing(there, {pair.step, pair.there.grad_norm, pair.here.grad_norm, "gradient norm"});
    }
    return {Agreement::same_bits, "same bits as " + there.name};
}

Comparison compare_rounded(const ComparedRun& there, const std::vector<StepPair>& pairs) {
    double worst = 0;
    for (const StepPair& pair : pairs) {
        if (pair.step > compared_steps) break;
        if (same(pair.there.loss, pair.here.loss)) continue;
        const double relative = std::abs(pair.here.loss - pair.there.loss) / std::abs(pair.there.loss);
        if (!(relative <= rounding))
            return differing(there, {pair.step, pair.there.loss, pair.here.loss, "loss"});
        worst = std::max(worst, relative);
    }
    return {Agreement::close, fmt::format("within {:.1e} of {}", worst, there.name)};
}

Comparison compare_with(const ComparedRun& there, const ComparedRun& here, bool to_the_bit) {
    const std::vector<StepPair> pairs = in_common(*there.metrics, *here.metrics);
    if (pairs.empty()) return {Agreement::alone, "no step in common with " + there.name};
    return to_the_bit ? compare_bits(there, pairs) : compare_rounded(there, pairs);
}

}  // namespace

ResultKey result_key(const config::JobSpec& spec, bool exact_schedule) {
    config::JobSpec copy = spec;
    const config::FieldTable table = config::table_of(copy);
    ResultKey key;
    const auto add = [&](std::string& text, const std::string& path) {
        text += path + "=" + config::yaml_text(table.find(path)->value) + "\n";
    };
    for (const config::Field& field : table.all())
        if (!is_of_no_result(field.path)) add(key.training, field.path);
    for (const char* path :
         {"run.device", "run.comm", "run.deterministic", "parallel.tp", "parallel.dp", "train.micro_batch"})
        add(key.bits, path);
    if (spec.train.dtype == "bf16") key.training += key.bits;
    if (!exact_schedule || (spec.run.device != "cpu" && !spec.run.deterministic)) key.bits.clear();
    return key;
}

std::vector<Comparison> compare(const std::vector<ComparedRun>& runs) {
    std::vector<Comparison> comparisons(runs.size());
    const auto same_training = [&](std::size_t a, std::size_t b) {
        return runs[a].key.training == runs[b].key.training;
    };
    const auto same_bits = [&](std::size_t a, std::size_t b) {
        return same_training(a, b) && !runs[a].key.bits.empty() && runs[a].key.bits == runs[b].key.bits;
    };
    for (std::size_t here = 0; here < runs.size(); ++here) {
        std::optional<std::size_t> exact, rounded;
        for (std::size_t before = 0; before < here; ++before) {
            if (!exact && same_bits(before, here)) exact = before;
            if (!rounded && same_training(before, here)) rounded = before;
        }
        if (!rounded) continue;
        const std::size_t there = exact.value_or(*rounded);
        comparisons[here] = compare_with(runs[there], runs[here], exact.has_value());
        if (comparisons[there].agreement == Agreement::alone)
            comparisons[there].agreement = Agreement::reference;
    }
    for (Comparison& comparison : comparisons)
        if (comparison.text.empty())
            comparison.text = comparison.agreement == Agreement::reference ? "reference" : "alone";
    return comparisons;
}

}  // namespace escalier::sweep
