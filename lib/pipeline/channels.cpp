#include "pipeline/channels.h"

#include <algorithm>

#include "core/check.h"

namespace escalier::pipeline {

namespace {

// Messages under way at once on either side of an edge are at most the buffers of the rings there.
void raise_depths(const std::vector<schedule::Program>& programs, int stages,
                  std::vector<int>& activation_depth, std::vector<int>& gradient_depth) {
    for (const schedule::Program& program : programs) {
        for (const schedule::StageBuffers& buffers : program.chunks) {
            const auto raise = [&](std::vector<int>& depth, int lower_stage, int messages) {
                if (lower_stage < 0) return;
                int& value = depth[static_cast<std::size_t>(buffers.copy * stages + lower_stage)];
                value = std::max(value, messages);
            };
            raise(activation_depth, buffers.stage, buffers.outputs);
            raise(activation_depth, buffers.stage - 1, buffers.inputs);
            raise(gradient_depth, buffers.stage, buffers.output_gradients);
            raise(gradient_depth, buffers.stage - 1, buffers.input_gradients);
        }
    }
}

}  // namespace

Channels::Channels(comm::Transport& transport, comm::Communicator& pp, const schedule::Schedule& schedule,
                   const std::vector<schedule::Program>& programs,
                   const std::vector<schedule::Program>& more_programs, bool synchronous_sends)
    : stages_(schedule.stages()) {
    ESCALIER_CHECK(pp.size() == schedule.pp, "the schedule is for another number of pipeline ranks");
    const auto places = static_cast<std::size_t>(schedule.places());
    std::vector<int> activation_depth(places, 1), gradient_depth(places, 1);
    raise_depths(programs, stages_, activation_depth, gradient_depth);
    raise_depths(more_programs, stages_, activation_depth, gradient_depth);
    activations_.resize(places);
    gradients_.resize(places);
    for (int copy = 0; copy < schedule.copies(); ++copy) {
        for (int stage = 0; stage + 1 < stages_; ++stage) {
            const int lower = schedule.rank_of(stage, copy), upper = schedule.rank_of(stage + 1, copy);
            if (lower == upper) continue;
            const auto at = static_cast<std::size_t>(copy * stages_ + stage);
            activations_[at] =
                transport.make_channel(pp, lower, upper, activation_depth[at], synchronous_sends);
            gradients_[at] = transport.make_channel(pp, upper, lower, gradient_depth[at], synchronous_sends);
        }
    }
}

}  // namespace escalier::pipeline
