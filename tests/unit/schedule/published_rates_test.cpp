// Idle shares that papers print, from their own measured durations.
#include <gtest/gtest.h>

#include "schedule/generators.h"
#include "schedule/simulate.h"

namespace escalier::schedule {
namespace {

// Qi et al. 2023 (arXiv 2401.10241): milliseconds of one rank from table 9, rates from table 5. Its column of
// interleaved 1f1b leaves out most dependencies across the ring's wrap; `interleaved` is what a simulation
// with them gives. Its models have chunks * ranks - 2 layers.
struct Profile {
    int pp, micro_batches;
    double forward, input_gradient, weight_gradient, transfer;
    double one_forward_one_backward, zb_h1, zb_h2;
    int chunks;
    double interleaved;
};
constexpr Profile profiles[] = {
    {8, 24, 18.522, 18.086, 9.337, 0.601, .2431, .1585, .1083, 3, .1090},
    {8, 32, 18.513, 18.086, 9.331, 0.626, .1985, .1242, .0837, 3, .0847},
    {8, 64, 18.546, 18.097, 9.321, 0.762, .1240, .0674, .0444, 3, .0461},
    {8, 24, 29.718, 29.444, 19.927, 0.527, .2347, .1323, .0698, 4, .0827},
    {8, 32, 29.802, 29.428, 19.530, 0.577, .1898, .1045, .0559, 4, .0644},
    {8, 64, 29.935, 29.621, 19.388, 0.535, .1091, .0554, .0294, 4, .0328},
    {16, 48, 11.347, 11.248, 8.132, 0.377, .2552, .1397, .0672, 3, .1136},
    {16, 64, 11.307, 11.254, 8.101, 0.379, .2082, .1088, .0516, 3, .0878},
    {16, 128, 11.325, 11.308, 8.109, 0.378, .1251, .0576, .0266, 3, .0459},
    {32, 96, 10.419, 10.207, 7.715, 0.408, .2646, .1421, .0641, 2, .1528},
    {32, 128, 10.408, 10.204, 7.703, 0.408, .2168, .1106, .0490, 2, .1192},
    {32, 256, 10.402, 10.248, 7.698, 0.460, .1352, .0594, .0257, 2, .0641},
};

TEST(PublishedRates, OfTheZeroBubblePaper) {
    for (const Profile& profile : profiles) {
        const auto rate = [&](const std::string& kind, int chunks) {
            const Schedule schedule = generate({kind, profile.pp, chunks, profile.micro_batches});
            const auto durations = Durations::uniform(schedule.stages(), profile.forward / chunks,
                                                      profile.input_gradient / chunks,
                                                      profile.weight_gradient / chunks, profile.transfer);
            return simulate(schedule, durations).span_idle_share;
        };
        SCOPED_TRACE("P " + std::to_string(profile.pp) + " M " + std::to_string(profile.micro_batches));
        constexpr double four_decimals = 0.5e-4;
        EXPECT_NEAR(rate("1f1b", 1), profile.one_forward_one_backward, four_decimals);
        EXPECT_NEAR(rate("zb-h1", 1), profile.zb_h1, four_decimals);
        EXPECT_NEAR(rate("zb-h2", 1), profile.zb_h2, four_decimals);
        EXPECT_NEAR(rate("interleaved", profile.chunks), profile.interleaved, four_decimals);
    }
}

double idle_share(const std::string& kind, int pp, int chunks, int micro_batches) {
    const Schedule schedule = generate({kind, pp, chunks, micro_batches});
    return simulate(schedule, Durations::uniform(schedule.stages(), 1, 1, 1, 0)).idle_share;
}

// What articles about DualPipe print for F = I = W on `d` devices; DualPipeV is DualPipe cut in half.
TEST(PublishedRates, AtEqualDurations) {
    for (const int d : {2, 4, 6, 8, 16}) {
        for (const int m : {2 * d, 2 * d + 2, 4 * d, 6 * d}) {
            SCOPED_TRACE("devices " + std::to_string(d) + ", micro-batches " + std::to_string(m));
            const double before = d - 1.0;
            EXPECT_NEAR(idle_share("1f1b", d, 1, m), before / (before + m), 1e-12);
            EXPECT_NEAR(idle_share("zb-h1", d, 1, m), before / (before + 3 * m), 1e-12);
            EXPECT_NEAR(idle_share("interleaved", d, 2, m), before / (before + 2 * m), 1e-12);
            EXPECT_NEAR(idle_share("dualpipe", d, 2, m), (d - 2.0) / (d - 2 + 3 * m), 1e-12);
            EXPECT_NEAR(idle_share("dualpipev", d, 2, m), before / (before + 3 * m), 1e-12);
            EXPECT_NEAR(idle_share("dualpipev", d, 2, m), idle_share("dualpipe", 2 * d, 2, 2 * m), 1e-12);
        }
    }
}

}  // namespace
}  // namespace escalier::schedule
