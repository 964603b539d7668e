#include "schedule/memory.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "schedule/generators.h"
#include "schedule/prove.h"

namespace escalier::schedule {
namespace {

ActivationBytes uniform(int stages, double forward, double linear_inputs, double output_gradients) {
    const auto count = static_cast<std::size_t>(stages);
    return {std::vector<double>(count, forward), std::vector<double>(count, linear_inputs),
            std::vector<double>(count, output_gradients)};
}

TEST(Memory, UnitBytesAreTheProvedPeaks) {
    for (const Kind& kind : kinds()) {
        const Schedule schedule = generate({std::string(kind.name), 4, kind.default_chunks, 8});
        const Proof proof = prove(schedule);
        const std::vector<double> until_weight =
            peak_bytes(schedule, ActivationBytes::unit(schedule.stages()));
        const std::vector<double> until_input = peak_bytes(schedule, uniform(schedule.stages(), 1, 0, 0));
        for (std::size_t rank = 0; rank < until_weight.size(); ++rank) {
            EXPECT_EQ(until_weight[rank], proof.peak_until_weight[rank]) << kind.name;
            EXPECT_EQ(until_input[rank], proof.peak_until_input[rank]) << kind.name;
        }
    }
}

// Zero-bubble paper, table 2 (worker i of 1 ... p there is rank r + 1 here). M_B is what F leaves, M_W what I
// leaves for W.
TEST(Memory, ZeroBubbleSchedulesTakeWhatTheirPaperSays) {
    const double m_b = 34 + 5 * 3, m_w = 32;
    for (const int pp : {2, 4, 7}) {
        const ActivationBytes bytes = uniform(pp, m_b - m_w, m_w, 0);
        const std::vector<double> h1 = peak_bytes(generate({"zb-h1", pp, 1, 3 * pp}), bytes);
        const std::vector<double> h2 = peak_bytes(generate({"zb-h2", pp, 1, 3 * pp}), bytes);
        for (int rank = 0; rank < pp; ++rank) {
            EXPECT_DOUBLE_EQ(h1[static_cast<std::size_t>(rank)], (pp - rank) * m_b + rank * m_w);
            EXPECT_DOUBLE_EQ(h2[static_cast<std::size_t>(rank)],
                             (2 * pp - 2 * rank - 1) * m_b + 2 * rank * m_w);
        }
    }
}

// Uneven stages count with their own bytes, and B holds its output gradients while it runs.
TEST(Memory, CountsEveryStageWithItsOwnBytes) {
    const Schedule schedule = generate({"1f1b", 2, 1, 4});
    const std::vector<double> peaks = peak_bytes(schedule, {{1, 10}, {2, 20}, {4, 40}});
    EXPECT_DOUBLE_EQ(peaks[0], 2 * (1 + 2) + 4);  // two micro-batches alive, one of them in B
    EXPECT_DOUBLE_EQ(peaks[1], 10 + 20 + 40);
}

}  // namespace
}  // namespace escalier::schedule
