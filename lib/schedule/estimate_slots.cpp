#include "schedule/estimate_slots.h"

#include <algorithm>

namespace escalier::schedule {

namespace {

struct Peak {
    int alive = 0, most = 0;
    void begin() { most = std::max(most, ++alive); }
    void end() { --alive; }
};

// Micro-batches of one chunk, or of chunks that share slots, between two of their actions.
struct Peaks {
    Peak forward, linear_inputs, output_gradients;

    void run(ActionKind kind) {
        if (kind == ActionKind::F) {
            forward.begin();
            linear_inputs.begin();
            return;
        }
        if (is_input_half(kind)) output_gradients.begin();
        if (is_input_half(kind)) forward.end();
        if (is_weight_half(kind)) {
            linear_inputs.end();
            output_gradients.end();
        }
    }
};

}  // namespace

std::vector<StageBuffers> estimate_slots(const Schedule& schedule, int rank, const std::vector<int>& groups) {
    std::vector<StageBuffers> chunks;
    std::vector<int> chunk_of_place(static_cast<std::size_t>(schedule.places()), -1);
    for (int place = 0; place < schedule.places(); ++place) {
        if (schedule.rank_of_place(place) != rank) continue;
        chunk_of_place[static_cast<std::size_t>(place)] = static_cast<int>(chunks.size());
        StageBuffers& chunk = chunks.emplace_back();
        chunk.stage = place % schedule.stages();
        chunk.copy = place / schedule.stages();
    }
    std::vector<Peaks> own(chunks.size()), shared(chunks.size());
    for (const Action& action : schedule.ranks[static_cast<std::size_t>(rank)]) {
        const auto chunk =
            static_cast<std::size_t>(chunk_of_place[static_cast<std::size_t>(schedule.place_of(action))]);
        own[chunk].run(action.kind);
        shared[static_cast<std::size_t>(groups[chunk])].run(action.kind);
    }
    const int messages = schedule.micro_batches / schedule.copies();
    for (std::size_t i = 0; i < chunks.size(); ++i) {
        StageBuffers& chunk = chunks[i];
        const Peaks& slots = shared[static_cast<std::size_t>(groups[i])];
        chunk.forward_slots = slots.forward.most;
        chunk.linear_input_slots = slots.linear_inputs.most;
        chunk.output_gradient_slots = slots.output_gradients.most;
        const bool first = chunk.stage == 0, last = chunk.stage + 1 == schedule.stages();
        const bool next_here = !last && schedule.rank_of(chunk.stage + 1, chunk.copy) == rank;
        const bool previous_here = !first && schedule.rank_of(chunk.stage - 1, chunk.copy) == rank;
        const auto ring = [&](bool there, int size) { return there ? std::min(size, messages) : 0; };
        chunk.inputs = ring(!first, own[i].forward.most + 1);
        chunk.output_gradients = ring(!last, own[i].output_gradients.most + 1);
        chunk.outputs = ring(!last && !next_here, 2);
        chunk.input_gradients = ring(!first && !previous_here, 2);
    }
    return chunks;
}

}  // namespace escalier::schedule
