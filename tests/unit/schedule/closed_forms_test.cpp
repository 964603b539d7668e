// Idle time and activation peaks of the published kinds have closed forms. F, I, W are a whole rank's
// durations, cut evenly among its stages; peaks count activations of one stage.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "schedule/generators.h"
#include "schedule/prove.h"
#include "schedule/simulate.h"

namespace escalier::schedule {
namespace {

struct Size {
    int pp, chunks, micro_batches;
};

struct Cost {
    double f, i, w;
    double b() const { return i + w; }
};

// W <= F <= I.
constexpr Cost costs[] = {{1, 1, 1}, {1, 1.2, 0.7}, {2, 2.9, 1.1}, {1, 3, 1}};

using Idle = std::function<double(const Size&, const Cost&)>;
using Peak = std::function<int(const Size&, int rank)>;

// Of every rank at every cost.
void expect_idle(const std::string& kind, const Size& size, const Idle& idle) {
    const Schedule schedule = generate({kind, size.pp, size.chunks, size.micro_batches});
    for (const Cost& cost : costs) {
        const Timeline timeline =
            simulate(schedule, Durations::uniform(schedule.stages(), cost.f / size.chunks,
                                                  cost.i / size.chunks, cost.w / size.chunks, 0));
        for (const double busy : timeline.busy)
            EXPECT_NEAR(timeline.makespan - busy, idle(size, cost), 1e-9)
                << kind << " P" << size.pp << " V" << size.chunks << " M" << size.micro_batches << " I"
                << cost.i;
    }
}

// By the zero-bubble paper's definition, without the stagger of the ranks.
void expect_idle_of_span(const std::string& kind, const Size& size, const Idle& idle) {
    const Schedule schedule = generate({kind, size.pp, size.chunks, size.micro_batches});
    for (const Cost& cost : costs) {
        const Timeline timeline =
            simulate(schedule, Durations::uniform(schedule.stages(), cost.f / size.chunks,
                                                  cost.i / size.chunks, cost.w / size.chunks, 0));
        EXPECT_NEAR(timeline.span - timeline.busy[0], idle(size, cost), 1e-9)
            << kind << " P" << size.pp << " M" << size.micro_batches;
    }
}

void expect_peaks(const std::string& kind, const Size& size, const Peak& until_weight,
                  const Peak& until_input) {
    const Proof proof = prove(generate({kind, size.pp, size.chunks, size.micro_batches}));
    for (int rank = 0; rank < size.pp; ++rank) {
        const auto r = static_cast<std::size_t>(rank);
        EXPECT_EQ(proof.peak_until_weight[r], until_weight(size, rank))
            << kind << " P" << size.pp << " V" << size.chunks << " M" << size.micro_batches << " r" << rank;
        EXPECT_EQ(proof.peak_until_input[r], until_input(size, rank))
            << kind << " P" << size.pp << " V" << size.chunks << " M" << size.micro_batches << " r" << rank;
    }
}

std::vector<Size> sizes(int chunks, const std::function<int(int)>& fewest) {
    std::vector<Size> sizes;
    for (int pp = 1; pp <= 8; ++pp)
        for (int m = fewest(pp); m <= fewest(pp) + pp + 2; ++m) sizes.push_back({pp, chunks, m});
    return sizes;
}

int one(int) {
    return 1;
}
int ranks(int pp) {
    return pp;
}

TEST(ClosedForms, GPipe) {
    const Peak all = [](const Size& s, int) { return s.micro_batches; };
    for (const Size& size : sizes(1, one)) {
        expect_idle("gpipe", size, [](const Size& s, const Cost& c) { return (s.pp - 1) * (c.f + c.b()); });
        expect_peaks("gpipe", size, all, all);
    }
}

TEST(ClosedForms, OneForwardOneBackward) {
    const Peak following = [](const Size& s, int rank) { return std::min(s.micro_batches, s.pp - rank); };
    for (const Size& size : sizes(1, one)) {
        expect_idle("1f1b", size, [](const Size& s, const Cost& c) { return (s.pp - 1) * (c.f + c.b()); });
        expect_peaks("1f1b", size, following, following);
    }
}

// Also where the micro-batches cannot be cut into equal groups.
TEST(ClosedForms, Interleaved) {
    for (const int chunks : {2, 3, 4})
        for (const Size& size : sizes(chunks, ranks))
            expect_idle("interleaved", size,
                        [](const Size& s, const Cost& c) { return (s.pp - 1) * (c.f + c.b()) / s.chunks; });
    const Peak alive = [](const Size& s, int rank) {
        const int groups = std::max(1, s.micro_batches / s.pp), group = s.micro_batches / groups;
        return std::min(s.micro_batches * s.chunks, 2 * (s.pp - 1 - rank) + (s.chunks - 1) * group + 1);
    };
    for (const int chunks : {2, 3, 4})
        for (const Size& size : sizes(chunks, one))
            if (size.micro_batches % std::max(1, size.micro_batches / size.pp) == 0)
                expect_peaks("interleaved", size, alive, alive);
}

TEST(ClosedForms, BreadthFirst) {
    const Peak all = [](const Size& s, int) { return s.micro_batches * s.chunks; };
    for (const int chunks : {2, 3, 4})
        for (const Size& size : sizes(chunks, ranks)) {
            expect_idle("bfs", size,
                        [](const Size& s, const Cost& c) { return (s.pp - 1) * (c.f + c.b()) / s.chunks; });
            expect_peaks("bfs", size, all, all);
        }
}

TEST(ClosedForms, ZeroBubbleH1) {
    const Peak until_weight = [](const Size& s, int) { return std::min(s.micro_batches, s.pp); };
    const Peak until_input = [](const Size& s, int rank) { return std::min(s.micro_batches, s.pp - rank); };
    for (const Size& size : sizes(1, one)) {
        expect_idle("zb-h1", size, [](const Size& s, const Cost& c) {
            if (s.micro_batches >= s.pp) return (s.pp - 1) * (c.f + c.i - c.w);
            return (s.micro_batches + s.pp - 1) * (c.f + c.i) + c.w - s.micro_batches * (c.f + c.b());
        });
        expect_peaks("zb-h1", size, until_weight, until_input);
    }
}

TEST(ClosedForms, ZeroBubbleH2) {
    for (const Size& size : sizes(1, [](int pp) { return 2 * pp - 1; })) {
        expect_idle("zb-h2", size, [](const Size& s, const Cost& c) {
            return (s.pp - 1) * (c.f + std::max(0.0, c.i - 2 * c.w));
        });
        expect_idle_of_span("zb-h2", size, [](const Size& s, const Cost& c) {
            return (s.pp - 1) * std::max(0.0, c.f + c.i - 2 * c.w);
        });
        expect_peaks(
            "zb-h2", size, [](const Size& s, int) { return 2 * s.pp - 1; },
            [](const Size& s, int rank) { return 2 * (s.pp - 1 - rank) + 1; });
    }
}

TEST(ClosedForms, InterleavedZeroBubble) {
    for (const int chunks : {2, 3, 4})
        for (const Size& size : sizes(chunks, ranks)) {
            expect_idle("interleaved-zb", size, [](const Size& s, const Cost& c) {
                return (s.pp - 1) * (c.f + c.i - c.w) / s.chunks;
            });
            if (size.micro_batches % size.pp != 0) continue;
            expect_peaks(
                "interleaved-zb", size, [](const Size& s, int) { return s.chunks * s.pp; },
                [](const Size& s, int rank) { return s.chunks * s.pp - rank; });
        }
}

TEST(ClosedForms, ZeroBubbleV) {
    const Peak all = [](const Size& s, int) { return 2 * s.pp; };
    for (const Size& size : sizes(2, [](int pp) { return 2 * pp; })) {
        expect_idle("zbv", size,
                    [](const Size& s, const Cost& c) { return (s.pp - 1) * std::max(c.i / 2, c.i - c.w); });
        expect_idle_of_span("zbv", size,
                            [](const Size& s, const Cost& c) { return (s.pp - 1) * (c.i - c.w); });
        expect_peaks("zbv", size, all, all);
    }
}

// Pairs that take a part of the sum of their actions. The formula counts F, B and W of one stage and holds
// for the most idle rank; the outer ranks run fewer pairs.
void expect_dual_idle(const std::string& kind, int pp, int micro_batches, int ranks_before_the_turn) {
    const Schedule schedule = generate({kind, pp, 2, micro_batches});
    for (const double pair_factor : {1.0, 0.9, 0.75}) {
        for (const Cost& c : {Cost{1, 1, 1}, {1, 1, 0.7}, {1.5, 1.5, 0.5}}) {
            Durations durations = Durations::uniform(schedule.stages(), c.f, c.i, c.w, 0);
            durations.pair_factor = pair_factor;
            const Timeline timeline = simulate(schedule, durations);
            const double pair = pair_factor * (c.f + c.b());
            EXPECT_NEAR(timeline.makespan - *std::min_element(timeline.busy.begin(), timeline.busy.end()),
                        ranks_before_the_turn * (pair + c.b() - 3 * c.w), 1e-9)
                << kind << " P" << pp << " M" << micro_batches << " pairs " << pair_factor << " W " << c.w;
        }
    }
}

TEST(ClosedForms, DualPipe) {
    const Peak all = [](const Size& s, int) { return s.pp + 1; };
    for (int pp = 2; pp <= 10; pp += 2)
        for (int m = 2 * pp; m <= 4 * pp; m += 2) {
            expect_dual_idle("dualpipe", pp, m, pp / 2 - 1);
            expect_peaks("dualpipe", {pp, 2, m}, all, all);
        }
}

TEST(ClosedForms, DualPipeV) {
    const Peak all = [](const Size& s, int) { return 2 * s.pp + 1; };
    for (int pp = 2; pp <= 8; ++pp)
        for (int m = 2 * pp; m <= 4 * pp; ++m) {
            expect_dual_idle("dualpipev", pp, m, pp - 1);
            expect_peaks("dualpipev", {pp, 2, m}, all, all);
        }
}

}  // namespace
}  // namespace escalier::schedule
