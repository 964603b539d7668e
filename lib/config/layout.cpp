#include "config/layout.h"

#include <algorithm>
#include <limits>

#include "config/model_facts.h"
#include "core/check.h"

namespace escalier::config {

namespace {

// The embedding reads a row and writes it, and its backward reads a gradient and adds it to a row: five
// passes of fp32 over C. Its share of a forward is a third of that, like every other cost here.
constexpr double embedding_bytes_per_channel = 5.0 * 4.0 / 3.0;
// SGEMM rate over memory rate of a two-core machine (performance.md, "Ceilings": 297 GFLOP/s, 19 GB/s).
constexpr double flops_per_byte = 16.0;

}  // namespace

ModelCost forward_cost(const ModelConfig& model, std::int64_t seq_len, std::int64_t tp) {
    const double hidden = static_cast<double>(model.hidden_size);
    ModelCost cost;
    cost.attention =
        2.0 * static_cast<double>(model.num_heads * model.head_dim) * static_cast<double>(seq_len);
    cost.layer = 2.0 * static_cast<double>(layer_matrix_parameters(model)) + cost.attention;
    cost.head = 2.0 * hidden * static_cast<double>(padded_vocab(model.vocab_size, tp));
    cost.embedding = embedding_bytes_per_channel * flops_per_byte * hidden;
    return cost;
}

double stage_cost(const ModelCost& cost, std::int64_t layers, bool first, bool last, Recompute recompute) {
    const double again = recompute == Recompute::full        ? cost.layer
                         : recompute == Recompute::attention ? cost.attention
                                                             : 0.0;
    return static_cast<double>(layers) * (3.0 * cost.layer + again) + (first ? 3.0 * cost.embedding : 0.0) +
           (last ? 3.0 * cost.head : 0.0);
}

std::vector<std::int64_t> even_layout(std::int64_t num_layers, std::int64_t stages) {
    ESCALIER_CHECK(stages >= 1 && num_layers >= stages, "every stage needs a layer");
    std::vector<std::int64_t> layout(static_cast<std::size_t>(stages), num_layers / stages);
    for (std::int64_t stage = 0; stage < num_layers % stages; ++stage)
        ++layout[static_cast<std::size_t>(stage)];
    return layout;
}

std::vector<std::int64_t> balanced_layout(const ModelCost& cost, std::int64_t num_layers,
                                          const std::vector<Recompute>& recompute) {
    const auto stages = static_cast<std::int64_t>(recompute.size());
    ESCALIER_CHECK(stages >= 1 && num_layers >= stages, "every stage needs a layer");
    const auto at = [&](std::int64_t stage, std::int64_t layers) {
        return stage_cost(cost, layers, stage == 0, stage == stages - 1,
                          recompute[static_cast<std::size_t>(stage)]);
    };
    constexpr double never = std::numeric_limits<double>::infinity();
    const auto size = static_cast<std::size_t>(num_layers + 1);
    // best[l]: over stages [stage, stages) holding l layers, the cost of the slowest; filled from the last
    // stage on.
    std::vector<double> best(size, never), next(size);
    best[0] = 0.0;
    for (std::int64_t stage = stages - 1; stage >= 0; --stage) {
        std::fill(next.begin(), next.end(), never);
        for (std::int64_t total = stages - stage; total <= num_layers; ++total)
            for (std::int64_t here = 1; here <= total - (stages - stage - 1); ++here)
                next[static_cast<std::size_t>(total)] =
                    std::min(next[static_cast<std::size_t>(total)],
                             std::max(at(stage, here), best[static_cast<std::size_t>(total - here)]));
        best.swap(next);
    }
    const double slowest = best[static_cast<std::size_t>(num_layers)] * (1.0 + 1e-12);

    // squares[stage][l]: the least sum of squares among layouts that keep within `slowest`.
    std::vector<std::vector<double>> squares(static_cast<std::size_t>(stages + 1),
                                             std::vector<double>(size, never));
    std::vector<std::vector<std::int64_t>> choice(static_cast<std::size_t>(stages),
                                                  std::vector<std::int64_t>(size, 0));
    squares[static_cast<std::size_t>(stages)][0] = 0.0;
    for (std::int64_t stage = stages - 1; stage >= 0; --stage) {
        const auto& after = squares[static_cast<std::size_t>(stage + 1)];
        auto& sums = squares[static_cast<std::size_t>(stage)];
        for (std::int64_t total = stages - stage; total <= num_layers; ++total)
            for (std::int64_t here = 1; here <= total - (stages - stage - 1); ++here) {
                const double own = at(stage, here);
                if (own > slowest) break;
                const double sum = own * own + after[static_cast<std::size_t>(total - here)];
                if (sum < sums[static_cast<std::size_t>(total)] * (1.0 - 1e-12) ||
                    (sums[static_cast<std::size_t>(total)] == never && sum < never)) {
                    sums[static_cast<std::size_t>(total)] = sum;
                    choice[static_cast<std::size_t>(stage)][static_cast<std::size_t>(total)] = here;
                }
            }
    }
    std::vector<std::int64_t> layout;
    std::int64_t left = num_layers;
    for (std::int64_t stage = 0; stage < stages; ++stage) {
        layout.push_back(choice[static_cast<std::size_t>(stage)][static_cast<std::size_t>(left)]);
        left -= layout.back();
    }
    return layout;
}

}  // namespace escalier::config
