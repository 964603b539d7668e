#include "pipeline/channels.h"

#include <algorithm>

#include "core/check.h"

namespace escalier::pipeline {

namespace {

// Messages under way at once on either side of an edge are at most the buffers of the rings there.
void raise_depths(const std::vector<schedule::Program>& programs, std::vector<int>& activation_depth,
                  std::vector<int>& gradient_depth) {
    const auto raise = [](std::vector<int>& depth, int edge, int messages) {
        if (edge < 0 || edge >= static_cast<int>(depth.size())) return;
        int& value = depth[static_cast<std::size_t>(edge)];
        value = std::max(value, messages);
    };
    for (const schedule::Program& program : programs) {
        for (const schedule::StageBuffers& buffers : program.chunks) {
            raise(activation_depth, buffers.stage, buffers.outputs);
            raise(activation_depth, buffers.stage - 1, buffers.inputs);
            raise(gradient_depth, buffers.stage, buffers.output_gradients);
            raise(gradient_depth, buffers.stage - 1, buffers.input_gradients);
        }
    }
}

}  // namespace

Channels::Channels(comm::MpiEnv& env, comm::Communicator& pp, const schedule::Schedule& schedule,
                   const std::vector<schedule::Program>& programs,
                   const std::vector<schedule::Program>& more_programs, bool synchronous_sends) {
    ESCALIER_CHECK(pp.size() == schedule.pp, "the schedule is for another number of pipeline ranks");
    const auto edges = static_cast<std::size_t>(schedule.stages() - 1);
    std::vector<int> activation_depth(edges, 1), gradient_depth(edges, 1);
    raise_depths(programs, activation_depth, gradient_depth);
    raise_depths(more_programs, activation_depth, gradient_depth);
    activations_.resize(edges);
    gradients_.resize(edges);
    for (std::size_t edge = 0; edge < edges; ++edge) {
        const int lower = schedule.rank_of(static_cast<int>(edge));
        const int upper = schedule.rank_of(static_cast<int>(edge) + 1);
        if (lower == upper) continue;
        activations_[edge] = env.make_channel(pp, lower, upper, activation_depth[edge], synchronous_sends);
        gradients_[edge] = env.make_channel(pp, upper, lower, gradient_depth[edge], synchronous_sends);
    }
}

}  // namespace escalier::pipeline
