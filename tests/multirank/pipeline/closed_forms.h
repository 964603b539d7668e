// Makespans of schedules on equal stages and messages without delay, as formulas. P ranks, V chunks, M
// micro-batches; f, i, w: durations of one stage's F, I and W. Sources: the papers of GPipe, PipeDream-Flush,
// Megatron-LM (interleaved), zero bubble, ZB-V and DualPipe; the forms hold for w <= min(f, i) and, where
// said, for more.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>

#include "schedule/generators.h"

namespace escalier::test {

inline bool has_closed_form(std::string_view kind) {
    return kind != "v-half" && kind != "v-min" && kind != "auto";
}

inline bool equal_stages(const schedule::Durations& d) {
    for (std::size_t s = 1; s < d.forward.size(); ++s)
        if (d.forward[s] != d.forward[0] || d.input_gradient[s] != d.input_gradient[0] ||
            d.weight_gradient[s] != d.weight_gradient[0])
            return false;
    return d.transfer == 0;
}

// Nothing where no form is known for these sizes and durations.
inline std::optional<double> closed_form(const schedule::GenerateOptions& options,
                                         const schedule::Durations& durations) {
    const double f = durations.forward[0], i = durations.input_gradient[0], w = durations.weight_gradient[0],
                 b = i + w;
    const int p = options.pp, m = options.micro_batches;
    if (!equal_stages(durations) || w > std::min(f, i) || m < p) return std::nullopt;
    const double busy = m * options.chunks * (f + b);
    const bool whole_groups = options.group == 0 || options.group == p;
    const auto& kind = options.kind;
    if (kind == "gpipe" || kind == "1f1b" || kind == "bfs") return busy + (p - 1) * (f + b);
    if (kind == "interleaved" && whole_groups) return busy + (p - 1) * (f + b);
    if (kind == "interleaved-zb" && whole_groups) return busy + (p - 1) * (f + i - w);
    if (kind == "zb-h1") return busy + (p - 1) * (f + i - w);
    if (kind == "zb-h2" && m >= 2 * p - 1) return busy + (p - 1) * (f + std::max(0.0, i - 2 * w));
    if (kind == "zbv" && m >= 2 * p - 1 && f <= i && i <= 2 * w) return busy + (p - 1) * i;
    const double pair = (f + b) * durations.pair_factor;
    if (kind == "dualpipe" && f == i && m >= 2 * p) return busy / 2 + (p / 2 - 1) * (pair + b - 3 * w);
    if (kind == "dualpipev" && f == i && m >= 2 * p) return busy + (p - 1) * (pair + b - 3 * w);
    return std::nullopt;
}

}  // namespace escalier::test
