#include "plan/candidates.h"

#include <algorithm>
#include <numeric>

#include "config/layout.h"
#include "core/limits.h"
#include "plan/stage_memory.h"
#include "plan/stage_times.h"
#include "schedule/generators.h"

namespace escalier::plan {

namespace {

using config::JobSpec;
using config::ModelConfig;

std::size_t at(std::int64_t i) {
    return static_cast<std::size_t>(i);
}

bool tensor_size_fits(const ModelConfig& m, std::int64_t tp) {
    return m.num_heads % tp == 0 && m.ffn_size % tp == 0 &&
           (m.num_kv_heads % tp == 0 || tp % m.num_kv_heads == 0);
}

bool in_v(const std::string& kind) {
    return kind == "zbv" || kind == "dualpipev" || kind == "v-half" || kind == "v-min";
}

int copies(const std::string& kind) {
    const schedule::Kind* known = schedule::find_kind(kind);
    return known ? known->copies : 1;
}

// One layer less at both ends than elsewhere; empty where the layers do not come out.
std::vector<std::int64_t> lighter_ends(std::int64_t layers, std::int64_t stages) {
    const std::int64_t each = (layers + 2) / stages;
    if ((layers + 2) % stages != 0 || stages < 2 || each < 2) return {};
    std::vector<std::int64_t> layout(at(stages), each);
    --layout.front();
    --layout.back();
    return layout;
}

// Chunks worth trying: what the kind asks for, or all that loop; beyond most_chunks messages outweigh the
// bubble that is left.
constexpr int most_chunks = 16;

std::vector<int> chunk_counts(const schedule::Kind& kind, std::int64_t layers, std::int64_t pp) {
    std::vector<int> counts;
    if (pp == 1 && kind.default_chunks > 1) return counts;
    if (kind.name == "interleaved" || kind.name == "bfs" || kind.name == "interleaved-zb") {
        for (int chunks = 2; chunks <= most_chunks && chunks * pp <= layers; ++chunks)
            counts.push_back(chunks);
    } else if (kind.default_chunks * pp / kind.copies <= layers) {
        counts.push_back(kind.default_chunks);
    }
    return counts;
}

bool worth_trying(const schedule::Kind& kind, std::int64_t pp) {
    if (kind.has_costs) return false;  // built per job: the leaders' own kinds are among the fixed ones
    return pp > 1 || kind.name == "1f1b";
}

void add_layouts(std::vector<Candidate>& out, const Candidate& base, std::int64_t layers) {
    for (const Layout layout : {Layout::balanced, Layout::even, Layout::lighter_ends}) {
        Candidate candidate = base;
        candidate.layout = layout;
        const std::int64_t stages = base.stages();
        if (stages == 1 && layout != Layout::balanced) continue;
        candidate.layers = layout == Layout::lighter_ends ? lighter_ends(layers, stages)
                                                          : config::even_layout(layers, stages);
        if (!candidate.layers.empty()) out.push_back(std::move(candidate));
    }
}

}  // namespace

bool splits_backward(const std::string& kind) {
    return kind.rfind("zb", 0) == 0 || kind == "interleaved-zb" || kind.rfind("v-", 0) == 0 ||
           kind == "dualpipe" || kind == "dualpipev" || kind == "auto";
}

int Candidate::stages() const {
    return static_cast<int>(grid.pp) * chunks / copies(schedule);
}

std::vector<Candidate> enumerate(const JobSpec& spec, std::int64_t ranks) {
    std::vector<Candidate> out;
    const std::int64_t layers = spec.model.num_layers, batch = spec.train.global_batch;
    for (std::int64_t tp = 1; tp <= std::min(ranks, spec.model.num_heads); ++tp) {
        if (ranks % tp != 0 || !tensor_size_fits(spec.model, tp)) continue;
        for (std::int64_t pp = 1; pp <= std::min(ranks / tp, layers); ++pp) {
            if (ranks / tp % pp != 0) continue;
            const std::int64_t dp = ranks / tp / pp;
            if (batch % dp != 0) continue;
            for (std::int64_t micro_batch = 1; micro_batch <= batch / dp; ++micro_batch) {
                if (batch / dp % micro_batch != 0) continue;
                for (const schedule::Kind& kind : schedule::kinds()) {
                    if (!worth_trying(kind, pp)) continue;
                    for (const int chunks : chunk_counts(kind, layers, pp)) {
                        Candidate candidate;
                        candidate.grid = {tp, pp, dp};
                        candidate.schedule = kind.name;
                        candidate.chunks = chunks;
                        candidate.micro_batch = micro_batch;
                        candidate.micro_batches = batch / dp / micro_batch;
                        if (candidate.micro_batches > most_schedule_cells / pp / chunks) continue;
                        schedule::GenerateOptions options;
                        options.kind = kind.name;
                        options.pp = static_cast<int>(pp);
                        options.chunks = chunks;
                        options.micro_batches = static_cast<int>(candidate.micro_batches);
                        if (!schedule::size_problem(kind, options).empty()) continue;
                        add_layouts(out, candidate, layers);
                    }
                }
            }
        }
    }
    return out;
}

int rank_of_stage(const Candidate& candidate, int stage) {
    const int pp = static_cast<int>(candidate.grid.pp), turn = stage / pp, place = stage % pp;
    return in_v(candidate.schedule) && turn % 2 == 1 ? pp - 1 - place : place;
}

double stage_bytes(const Candidate& c, const JobSpec& spec, int stage, std::int64_t layers,
                   config::Recompute recompute) {
    const bool first = stage == 0, last = stage + 1 == c.stages();
    const ActivationShape shape = {spec.model, c.micro_batch,    spec.train.seq_len,
                                   c.grid.tp,  spec.train.dtype, 1};
    const PartElements elements = part_elements(spec.model, c.grid.tp);
    const double rows = static_cast<double>(c.micro_batch * spec.train.seq_len);
    const double element = spec.train.dtype == "bf16" ? 2 : 4;
    const int rank = rank_of_stage(c, stage);
    const double live =
        live_activations(c.schedule, static_cast<int>(c.grid.pp), c.chunks, c.micro_batches, rank);
    const StageActivations activations = stage_activations(shape, layers, first, last, recompute);
    const bool ends_meet = copies(c.schedule) == 2 || rank_of_stage(c, 0) == rank_of_stage(c, c.stages() - 1);
    const double state =
        stage_elements(elements, layers, first, last, spec.model.tie_embeddings && ends_meet);
    const double boundary = 4 * rows * static_cast<double>(spec.model.hidden_size) * element;
    // Output gradients live within B, or from I to W; one such slot is what every schedule has.
    return state * state_bytes_per_element(spec.optimizer, spec.train.dtype) +
           live / c.chunks * (activations.forward + activations.linear_inputs) +
           activations.output_gradients + boundary;
}

void price(Candidate& c, const JobSpec& spec, const config::ModelTimes& times) {
    const int stages = c.stages();
    const bool split = splits_backward(c.schedule), dual = copies(c.schedule) == 2;
    const config::Recompute recompute = c.recompute == RecomputeChoice::full ? config::Recompute::full
                                        : c.recompute == RecomputeChoice::attention
                                            ? config::Recompute::attention
                                            : config::Recompute::none;
    if (c.layout == Layout::balanced && stages > 1) {
        // In thirds, as ModelCost is.
        const config::ModelCost cost = {stage_seconds(times, 0, true, false, recompute, split) / 3,
                                        stage_seconds(times, 1, false, false, recompute, split) / 3, 0,
                                        stage_seconds(times, 0, false, true, recompute, split) / 3};
        c.layers = config::balanced_layout(
            cost, spec.model.num_layers, std::vector<config::Recompute>(at(stages), config::Recompute::none));
    }
    JobSpec probe = {};
    probe.model = spec.model;
    probe.pipeline.layers_per_stage = c.layers;
    probe.train.recompute.assign(at(stages), recompute);
    const schedule::Durations d = stage_times(probe, times, split).durations;
    const auto pp = at(c.grid.pp);
    std::vector<double> busy(pp, 0), bytes(pp, 0);
    const double micro_batches = static_cast<double>(c.micro_batches);
    for (int stage = 0; stage < stages; ++stage) {
        const double work = micro_batches * (d.forward[at(stage)] + d.input_gradient[at(stage)] +
                                             d.weight_gradient[at(stage)]);
        const double memory = stage_bytes(c, spec, stage, c.layers[at(stage)], recompute);
        const auto rank = at(rank_of_stage(c, stage));
        busy[rank] += dual ? work / 2 : work;
        bytes[rank] += memory;
        if (!dual) continue;
        busy[pp - 1 - rank] += work / 2;
        bytes[pp - 1 - rank] += memory;
    }
    c.bytes = *std::max_element(bytes.begin(), bytes.end());
    // A rank starts once a micro-batch has come to it; with B in one action, its last gradient still has to
    // go back to the first stage.
    double fill = 0, drain = 0;
    c.bound = 0;
    for (std::size_t rank = 0; rank < pp; ++rank) {
        const bool near_end = dual && 2 * rank >= pp;
        const double ends = near_end ? 0 : fill + (split ? 0 : drain);
        c.bound = std::max(c.bound, ends + busy[rank]);
        fill += d.forward[rank] + times.message;
        drain += d.input_gradient[rank] + d.weight_gradient[rank] + times.message;
    }
    const PartElements elements = part_elements(spec.model, c.grid.tp);
    const double least_elements =
        static_cast<double>(spec.model.num_layers) * elements.layer / static_cast<double>(c.grid.pp);
    c.bound += times.step + times.data * micro_batches + (times.norm + times.optimizer) * least_elements;
}

}  // namespace escalier::plan
