// Slots counted from a schedule's lists are those of its lowered programs.
#include "schedule/estimate_slots.h"

#include <gtest/gtest.h>

#include <numeric>

#include "schedule/generators.h"
#include "schedule/lower.h"
#include "schedule/share_slots.h"

namespace escalier::schedule {
namespace {

int rings(const StageBuffers& chunk) {
    return chunk.inputs + chunk.outputs + chunk.output_gradients + chunk.input_gradients;
}

void compare(const GenerateOptions& options, bool shared) {
    const Schedule schedule = generate(options);
    std::vector<Program> programs = lower_with_least_rings(schedule);
    for (int rank = 0; rank < schedule.pp; ++rank) {
        Program& program = programs[static_cast<std::size_t>(rank)];
        std::vector<int> groups(program.chunks.size(), 0);
        if (!shared) std::iota(groups.begin(), groups.end(), 0);
        share_slots(program, groups);
        const std::vector<StageBuffers> estimated = estimate_slots(schedule, rank, groups);
        ASSERT_EQ(estimated.size(), program.chunks.size());
        for (std::size_t chunk = 0; chunk < estimated.size(); ++chunk) {
            const StageBuffers &told = estimated[chunk], &real = program.chunks[chunk];
            const std::string where = options.kind + " of " + std::to_string(options.pp) + " ranks, rank " +
                                      std::to_string(rank) + ", chunk " + std::to_string(chunk);
            EXPECT_EQ(told.stage, real.stage) << where;
            EXPECT_EQ(told.copy, real.copy) << where;
            EXPECT_EQ(told.forward_slots, real.forward_slots) << where;
            EXPECT_EQ(told.linear_input_slots, real.linear_input_slots) << where;
            EXPECT_EQ(told.output_gradient_slots, real.output_gradient_slots) << where;
            EXPECT_NEAR(rings(told), rings(real), 1) << where;
        }
    }
}

TEST(EstimateSlots, AreThoseOfTheLoweredPrograms) {
    for (const Kind& kind : kinds())
        for (const int pp : {1, 2, 4, 8})
            for (const int micro_batches : {4, 8, 24})
                for (const bool shared : {false, true}) {
                    GenerateOptions options;
                    options.kind = kind.name;
                    options.pp = pp;
                    options.chunks = kind.default_chunks;
                    options.micro_batches = micro_batches;
                    const bool alone = pp == 1 && options.chunks > 1;
                    if (!alone && size_problem(kind, options).empty()) compare(options, shared);
                }
}

}  // namespace
}  // namespace escalier::schedule
