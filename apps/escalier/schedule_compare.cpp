#include "schedule_compare.h"

#include <algorithm>
#include <memory>
#include <sstream>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "schedule/lower.h"
#include "schedule/prove.h"
#include "schedule/simulate.h"
#include "text_table.h"

namespace escalier::apps {
namespace {

using schedule::GenerateOptions;
using schedule::Kind;

std::vector<const Kind*> kinds_of(const std::string& list) {
    std::vector<const Kind*> chosen;
    if (list == "all") {
        for (const Kind& kind : schedule::kinds()) chosen.push_back(&kind);
        return chosen;
    }
    std::istringstream names(list);
    for (std::string name; std::getline(names, name, ',');) {
        const Kind* kind = &schedule::require_kind(name);
        if (std::find(chosen.begin(), chosen.end(), kind) != chosen.end())
            throw ConfigError("--compare: `" + name + "` is named twice; leave one out");
        chosen.push_back(kind);
    }
    if (chosen.empty())
        throw ConfigError("--compare: no schedule is named; write for instance 1f1b,zbv or all");
    return chosen;
}

// The given options as far as `kind` takes them.
GenerateOptions options_for(const Kind& kind, const GenerateOptions& given) {
    GenerateOptions options = given;
    options.kind = kind.name;
    if (!kind.has_lifo) options.backward = schedule::BackwardOrder::fifo;
    if (!kind.has_group) options.group = 0;
    options.chunks = kind.default_chunks;
    if (given.chunks != 0 && kind.default_chunks > 1) {
        GenerateOptions with_chunks = options;
        with_chunks.chunks = given.chunks;
        if (schedule::size_problem(kind, with_chunks).empty()) return with_chunks;
    }
    return options;
}

// A kind that is built for costs takes any number of chunks: without a wish, one and two.
std::vector<GenerateOptions> variants_of(const Kind& kind, const GenerateOptions& given) {
    std::vector<GenerateOptions> variants = {options_for(kind, given)};
    if (!kind.has_costs) return variants;
    variants[0].chunks = given.chunks == 0 ? kind.default_chunks : given.chunks;
    if (given.chunks != 0) return variants;
    variants.push_back(variants[0]);
    variants[1].chunks = 2;
    return variants;
}

void require_use(const std::vector<const Kind*>& kinds, const GenerateOptions& given,
                 const std::string& memory) {
    const auto refuse_unless = [&](const std::string& flag, auto takes) {
        if (std::none_of(kinds.begin(), kinds.end(), [&](const Kind* kind) { return takes(*kind); }))
            throw ConfigError(flag + ": none of the compared schedules takes it; leave it out");
    };
    if (given.chunks != 0)
        refuse_unless("--chunks " + std::to_string(given.chunks),
                      [&](const Kind& kind) { return variants_of(kind, given)[0].chunks == given.chunks; });
    if (given.group != 0) refuse_unless("--group", [](const Kind& kind) { return kind.has_group; });
    if (given.backward == schedule::BackwardOrder::lifo)
        refuse_unless("--backward lifo", [](const Kind& kind) { return kind.has_lifo; });
    if (!memory.empty()) refuse_unless("--memory", [](const Kind& kind) { return kind.has_costs; });
}

std::string shown(double value) {
    std::ostringstream out;
    out << value;
    return out.str();
}

// Of all ranks, in activations of one rank's whole share.
std::string peak_range(const std::vector<int>& peaks, double share) {
    const auto [least, most] = std::minmax_element(peaks.begin(), peaks.end());
    if (*least == *most) return shown(*most * share);
    return shown(*least * share) + " to " + shown(*most * share);
}

const Row head = {"schedule", "chunks",         "makespan", "idle",   "without stagger",
                  "peak",     "freed at input", "messages", "results"};

bool exceeds(const schedule::Proof& proof, double share, const std::vector<double>& limits) {
    for (std::size_t rank = 0; rank < limits.size(); ++rank)
        if (proof.peak_until_weight[rank] * share > limits[rank]) return true;
    return false;
}

Row row_of(const Kind& kind, GenerateOptions options, const Costs& costs, const std::string& memory,
           bool& any_pairs) {
    const double share = 1.0 / options.chunks;
    const auto limits = memory.empty() ? std::vector<double>() : parse_memory(memory, options.pp);
    if (kind.has_costs) {
        const int stages = options.pp * options.chunks;
        auto bytes = schedule::ActivationBytes::unit(stages);
        for (double& value : bytes.linear_inputs) value *= share;
        options.costs = std::make_shared<schedule::StageCosts>(
            schedule::StageCosts{costs.durations(stages, share), bytes, limits});
    }
    const schedule::Schedule made = schedule::generate(options);
    any_pairs |= made.has_overlaps();
    const double stage_share = static_cast<double>(made.pp) / made.stages();
    const auto programs = schedule::lower(made);
    const schedule::Proof proof = schedule::prove(made, programs);
    const auto timeline = schedule::simulate(made, programs, costs.durations(made.stages(), stage_share));
    return {made.kind,
            std::to_string(made.chunks),
            shown(timeline.makespan),
            percent(timeline.idle_share),
            percent(timeline.span_idle_share),
            peak_range(proof.peak_until_weight, stage_share),
            peak_range(proof.peak_until_input, stage_share),
            std::to_string(proof.messages),
            std::string(proof.exact ? "bits of 1f1b" : "to rounding") +
                (exceeds(proof, stage_share, limits) ? ", over --memory" : "")};
}

}  // namespace

std::string compare_schedules(const std::string& list, const GenerateOptions& options, const Costs& costs,
                              const std::string& memory) {
    const std::vector<const Kind*> kinds = kinds_of(list);
    require_use(kinds, options, memory);
    if (costs.per_stage())
        throw ConfigError(
            "--compare: --cost has a value per stage, but the compared schedules cut the model into "
            "different stages; give one value each for F, I and W");
    std::vector<Row> rows = {head};
    std::string refused;
    bool any_pairs = false;
    for (const Kind* kind : kinds) {
        for (const GenerateOptions& own : variants_of(*kind, options)) {
            const std::string problem = schedule::size_problem(*kind, own);
            if (problem.empty())
                rows.push_back(row_of(*kind, own, costs, memory, any_pairs));
            else
                refused += std::string(kind->name) + ": " + problem + "\n";
        }
    }
    if (rows.size() == 1)
        throw ConfigError("--compare: no schedule takes these sizes:\n" +
                          refused.substr(0, refused.size() - 1));
    if (costs.pair_factor != 1 && !any_pairs)
        throw ConfigError(
            "--cost: pair= is about overlapped pairs, none of the compared schedules has any; leave it out");
    std::ostringstream out;
    out << options.pp << " pipeline ranks, " << options.micro_batches << " micro-batches, " << costs.text
        << "\nTimes and activations are of one rank's whole share of the model, so a stage of a schedule "
           "with V "
           "chunks takes\n1/V of F, I and W and keeps 1/V of the activations; peak: the most micro-batches' "
           "activations alive on a rank\n(least to most loaded rank) if W frees them, and if the input half "
           "already does. Every schedule is proved.\n\n"
        << text_table(rows);
    if (!refused.empty()) out << "\nnot at these sizes:\n" << refused;
    return out.str();
}

}  // namespace escalier::apps
