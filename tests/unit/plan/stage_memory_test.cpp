#include "plan/stage_memory.h"

#include <gtest/gtest.h>

#include "plan/candidates.h"
#include "schedule/generators.h"
#include "schedule/prove.h"

namespace escalier::plan {
namespace {

TEST(StageMemory, LiveActivationsAreThoseOfTheProof) {
    for (const int pp : {2, 4, 6})
        for (const int micro_batches : {1, 3, 8, 24})
            for (const schedule::Kind& kind : schedule::kinds()) {
                if (kind.has_costs) continue;
                schedule::GenerateOptions options;
                options.kind = kind.name;
                options.pp = pp;
                options.chunks = kind.default_chunks;
                options.micro_batches = micro_batches;
                if (!schedule::size_problem(kind, options).empty()) continue;
                const schedule::Proof proof = schedule::prove(schedule::generate(options));
                for (int rank = 0; rank < pp; ++rank) {
                    const double predicted =
                        live_activations(std::string(kind.name), pp, options.chunks, micro_batches, rank);
                    const int real = proof.peak_until_weight[static_cast<std::size_t>(rank)];
                    // An estimate; never far below, or a search would try what cannot fit.
                    EXPECT_GE(predicted * 1.5 + 2, real)
                        << kind.name << " " << pp << " " << micro_batches << " rank " << rank;
                    EXPECT_LE(predicted, 1.5 * real + pp + 1)
                        << kind.name << " " << pp << " " << micro_batches << " rank " << rank;
                    if (kind.name == "1f1b" || kind.name == "gpipe") {
                        EXPECT_EQ(predicted, real);
                    }
                }
            }
}

TEST(StageMemory, StateOfAParameter) {
    config::OptimizerConfig optimizer;
    EXPECT_DOUBLE_EQ(state_bytes_per_element(optimizer, "bf16"), 18);
    optimizer.name = "sgd";
    EXPECT_DOUBLE_EQ(state_bytes_per_element(optimizer, "bf16"), 10);
}

}  // namespace
}  // namespace escalier::plan
