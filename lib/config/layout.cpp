#include "config/layout.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

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

namespace {

// Gives each stage one layer and then deals out the others, each to the stage where `price(stage, layers)`,
// the price of its layers once it has it, is least, to the last of equal ones. An infinite price: the stage
// is full. As prices rise with the layers, this makes the dearest price paid and the sum of all as small as
// can be.
template <class Price>
std::vector<std::int64_t> deal_layers(std::int64_t num_layers, std::int64_t stages, const Price& price) {
    using Offer = std::pair<double, std::int64_t>;  // price, -stage
    std::priority_queue<Offer, std::vector<Offer>, std::greater<>> offers;
    for (std::int64_t stage = 0; stage < stages; ++stage) offers.emplace(price(stage, 2), -stage);
    std::vector<std::int64_t> layout(static_cast<std::size_t>(stages), 1);
    for (std::int64_t layer = stages; layer < num_layers; ++layer) {
        const std::int64_t stage = -offers.top().second;
        offers.pop();
        const std::int64_t layers = ++layout[static_cast<std::size_t>(stage)];
        offers.emplace(price(stage, layers + 1), -stage);
    }
    return layout;
}

}  // namespace

std::vector<std::int64_t> balanced_layout(const ModelCost& cost, std::int64_t num_layers,
                                          const std::vector<Recompute>& recompute) {
    const auto stages = static_cast<std::int64_t>(recompute.size());
    ESCALIER_CHECK(stages >= 1 && num_layers >= stages, "every stage needs a layer");
    const auto at = [&](std::int64_t stage, std::int64_t layers) {
        return stage_cost(cost, layers, stage == 0, stage == stages - 1,
                          recompute[static_cast<std::size_t>(stage)]);
    };
    const std::vector<std::int64_t> fastest = deal_layers(num_layers, stages, at);
    double slowest = 0.0;
    for (std::int64_t stage = 0; stage < stages; ++stage)
        slowest = std::max(slowest, at(stage, fastest[static_cast<std::size_t>(stage)]));
    slowest *= 1.0 + 1e-12;
    // Among the layouts that keep within `slowest`, the one with the least sum of squares: what one more
    // layer adds to it rises with the layers too.
    return deal_layers(num_layers, stages, [&](std::int64_t stage, std::int64_t layers) {
        const double before = at(stage, layers - 1), after = at(stage, layers);
        return after > slowest ? std::numeric_limits<double>::infinity() : after * after - before * before;
    });
}

}  // namespace escalier::config
