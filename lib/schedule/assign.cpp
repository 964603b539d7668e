#include "schedule/assign.h"

#include <algorithm>

#include "core/check.h"
#include "schedule/check.h"

namespace escalier::schedule {
namespace {

std::size_t at(int i) {
    return static_cast<std::size_t>(i);
}

// What a place (a stage of a copy) sees of its neighbours.
struct Neighbours {
    bool receives_activation = false, receives_gradient = false;
    bool sends_activation = false, sends_gradient = false;
    bool next_is_local = false, previous_is_local = false;
    std::vector<int> activation_order, gradient_order;  // micro-batches as the other end sends them
};

std::vector<Neighbours> find_neighbours(const Schedule& schedule) {
    std::vector<Neighbours> all(at(schedule.places()));
    const bool training = pass_of(schedule) == Pass::training;
    for (int place = 0; place + 1 < schedule.places(); ++place) {
        if ((place + 1) % schedule.stages() == 0) continue;  // the last stage of a copy
        const bool local = schedule.rank_of_place(place) == schedule.rank_of_place(place + 1);
        Neighbours& lower = all[at(place)];
        Neighbours& upper = all[at(place + 1)];
        lower.next_is_local = upper.previous_is_local = local;
        lower.sends_activation = upper.receives_activation = !local;
        upper.sends_gradient = lower.receives_gradient = !local && training;
    }
    for (const auto& actions : schedule.ranks) {
        for (const Action& action : actions) {
            const std::size_t place = at(schedule.place_of(action));
            if (action.kind == ActionKind::F && all[place].sends_activation)
                all[place + 1].activation_order.push_back(action.micro_batch);
            if (is_input_half(action.kind) && all[place].sends_gradient)
                all[place - 1].gradient_order.push_back(action.micro_batch);
        }
    }
    return all;
}

// Counts the messages of one channel that must be held at once.
class HeldMessages {
 public:
    HeldMessages(const std::vector<int>& order, int micro_batches)
        : index_(at(micro_batches), -1), messages_(static_cast<int>(order.size())) {
        for (std::size_t i = 0; i < order.size(); ++i) index_[at(order[i])] = static_cast<int>(i);
    }
    void use(int micro_batch) {
        arrived_ = std::max(arrived_, index_[at(micro_batch)] + 1);
        most_ = std::max(most_, arrived_ - released_);
    }
    void release() { ++released_; }
    int ring_size() const { return std::min(messages_, most_ + 1); }

 private:
    std::vector<int> index_;  // by micro-batch
    int messages_;
    int arrived_ = 0, released_ = 0, most_ = 0;
};

// Hands out indices; without a limit it grows to what is asked for.
class Pool {
 public:
    explicit Pool(int limit = -1) : limited_(limit >= 0), size_(std::max(limit, 0)) {
        for (int i = size_; i-- > 0;) free_.push_back(i);
    }
    bool available() const { return !free_.empty() || !limited_; }
    int take() {
        ESCALIER_CHECK(available(), "a ring ran out of buffers");
        if (free_.empty()) return size_++;
        const int index = free_.back();
        free_.pop_back();
        return index;
    }
    void give_back(int index) { free_.push_back(index); }
    int size() const { return size_; }

 private:
    bool limited_;
    int size_;
    std::vector<int> free_;
};

// What a micro-batch holds on a stage at the moment.
struct Held {
    ActionKind backward = ActionKind::B;  // B or I: what will use its gradient
    int input = -1, output_gradient = -1;
    int forward_slot = -1, linear_input_slot = -1, output_gradient_slot = -1;
};

struct ChunkState {
    int stage = 0, copy = 0;
    const Neighbours* neighbours = nullptr;
    Pool inputs, output_gradients, forward_slots, linear_input_slots, output_gradient_slots;
    int outputs = 0, input_gradients = 0;  // ring sizes
    int sent_activations = 0, sent_gradients = 0;
    std::size_t posted_activations = 0, posted_gradients = 0;
    int weight_actions_left = 0;
    int next_chunk = -1, previous_chunk = -1;
    int outgoing = -1;       // buffer that the latest compute filled
    std::vector<Held> held;  // per micro-batch
};

// Which places a rank holds, and which of them is which chunk there.
struct Homes {
    std::vector<std::vector<int>> places_of_rank;
    std::vector<int> chunk_of_place;

    explicit Homes(const Schedule& schedule) : places_of_rank(at(schedule.pp)) {
        for (int place = 0; place < schedule.places(); ++place) {
            std::vector<int>& places = places_of_rank[at(schedule.rank_of_place(place))];
            chunk_of_place.push_back(static_cast<int>(places.size()));
            places.push_back(place);
        }
    }
};

class RankAssigner {
 public:
    RankAssigner(const Schedule& schedule, const std::vector<Neighbours>& neighbours, const Homes& homes,
                 RingSizes& sizes, int rank)
        : schedule_(schedule),
          forward_pass_(pass_of(schedule) == Pass::forward),
          chunk_of_place_(homes.chunk_of_place) {
        program_.pp_rank = rank;
        for (const int place : homes.places_of_rank[at(rank)]) {
            ChunkState& chunk = chunks_.emplace_back();
            chunk.stage = place % schedule.stages();
            chunk.copy = place / schedule.stages();
            chunk.neighbours = &neighbours[at(place)];
            if (chunk.neighbours->receives_activation)
                chunk.inputs = Pool(ring_size(sizes, place, Ring::inputs));
            if (chunk.neighbours->receives_gradient)
                chunk.output_gradients = Pool(ring_size(sizes, place, Ring::output_gradients));
            chunk.outputs = ring_size(sizes, place, Ring::outputs);
            chunk.input_gradients = ring_size(sizes, place, Ring::input_gradients);
            chunk.held.resize(at(schedule.micro_batches));
        }
        for (ChunkState& chunk : chunks_) {
            const int place = chunk.copy * schedule.stages() + chunk.stage;
            if (chunk.neighbours->next_is_local) chunk.next_chunk = chunk_of_place_[at(place + 1)];
            if (chunk.neighbours->previous_is_local) chunk.previous_chunk = chunk_of_place_[at(place - 1)];
        }
        for (const Action& action : schedule.ranks[at(rank)]) {
            if (is_weight_half(action.kind)) ++chunk_of(action).weight_actions_left;
            if (is_input_half(action.kind))
                chunk_of(action).held[at(action.micro_batch)].backward = action.kind;
        }
    }

    Program run() {
        post_receives();
        const std::vector<Action>& actions = schedule_.ranks[at(program_.pp_rank)];
        program_.instructions.reserve(3 * actions.size());
        for (std::size_t i = 0; i < actions.size(); ++i) {
            compute(actions[i]);
            const bool pair = actions[i].overlaps_next;
            if (pair) compute(actions[i + 1]);
            conclude(actions[i]);
            if (pair) conclude(actions[++i]);
            post_receives();
        }
        for (const ChunkState& chunk : chunks_)
            program_.chunks.push_back(
                {chunk.stage, chunk.inputs.size(), chunk.outputs, chunk.output_gradients.size(),
                 chunk.input_gradients, chunk.forward_slots.size(), chunk.linear_input_slots.size(),
                 chunk.output_gradient_slots.size(), chunk.next_chunk, chunk.previous_chunk, chunk.copy});
        return std::move(program_);
    }

 private:
    int chunk_index(const Action& action) const { return chunk_of_place_[at(schedule_.place_of(action))]; }
    ChunkState& chunk_of(const Action& action) { return chunks_[at(chunk_index(action))]; }

    void emit(InstructionKind kind, const Action& action, int buffer, Binding binding = {}) {
        program_.instructions.push_back({kind, action, chunk_index(action), buffer, binding});
    }

    void post_receives() {
        for (ChunkState& chunk : chunks_) {
            const auto& activations = chunk.neighbours->activation_order;
            while (chunk.posted_activations < activations.size() && chunk.inputs.available()) {
                const int mb = activations[chunk.posted_activations++];
                chunk.held[at(mb)].input = chunk.inputs.take();
                emit(InstructionKind::receive_activation, {ActionKind::F, chunk.stage, mb},
                     chunk.held[at(mb)].input);
            }
            const auto& gradients = chunk.neighbours->gradient_order;
            while (chunk.posted_gradients < gradients.size() && chunk.output_gradients.available()) {
                const int mb = gradients[chunk.posted_gradients++];
                chunk.held[at(mb)].output_gradient = chunk.output_gradients.take();
                emit(InstructionKind::receive_gradient, {chunk.held[at(mb)].backward, chunk.stage, mb},
                     chunk.held[at(mb)].output_gradient);
            }
        }
    }

    void compute(const Action& action) {
        ChunkState& chunk = chunk_of(action);
        Held& held = chunk.held[at(action.micro_batch)];
        Binding binding;
        if (action.kind == ActionKind::F) bind_forward(chunk, held, action, binding);
        if (is_input_half(action.kind)) bind_input_backward(chunk, held, action, binding);
        if (is_weight_half(action.kind)) {
            binding.output_gradient = held.output_gradient;
            binding.linear_input_slot = held.linear_input_slot;
            binding.output_gradient_slot = held.output_gradient_slot;
        }
        emit(InstructionKind::compute, action, -1, binding);
        chunk.outgoing = action.kind == ActionKind::F ? binding.output : binding.input_gradient;
    }

    // What follows a compute, or both computes of a pair.
    void conclude(const Action& action) {
        ChunkState& chunk = chunk_of(action);
        if (action.kind == ActionKind::F && chunk.neighbours->sends_activation)
            emit(InstructionKind::send_activation, action, chunk.outgoing);
        if (is_input_half(action.kind) && chunk.neighbours->sends_gradient)
            emit(InstructionKind::send_gradient, action, chunk.outgoing);
        release(chunk, chunk.held[at(action.micro_batch)], action.kind);
        if (is_weight_half(action.kind) && --chunk.weight_actions_left == 0)
            emit(InstructionKind::reduce_gradients, action, -1);
    }

    void bind_forward(ChunkState& chunk, Held& held, const Action& action, Binding& binding) {
        if (chunk.neighbours->receives_activation)
            ESCALIER_CHECK(held.input >= 0, "no receive was posted for " + cell(action));
        held.forward_slot = chunk.forward_slots.take();
        held.linear_input_slot = chunk.linear_input_slots.take();
        binding.input = held.input;
        binding.forward_slot = held.forward_slot;
        binding.linear_input_slot = held.linear_input_slot;
        if (chunk.neighbours->sends_activation) {
            binding.output = chunk.sent_activations++ % chunk.outputs;
        } else if (chunk.next_chunk >= 0) {
            ChunkState& next = chunks_[at(chunk.next_chunk)];
            binding.output = next.held[at(action.micro_batch)].input = next.inputs.take();
            binding.output_is_next_input = true;
        }
    }

    void bind_input_backward(ChunkState& chunk, Held& held, const Action& action, Binding& binding) {
        if (chunk.neighbours->receives_gradient)
            ESCALIER_CHECK(held.output_gradient >= 0, "no receive was posted for " + cell(action));
        held.output_gradient_slot = chunk.output_gradient_slots.take();
        binding.input = held.input;
        binding.output_gradient = held.output_gradient;
        binding.forward_slot = held.forward_slot;
        binding.linear_input_slot = held.linear_input_slot;
        binding.output_gradient_slot = held.output_gradient_slot;
        if (chunk.neighbours->sends_gradient) {
            binding.input_gradient = chunk.sent_gradients++ % chunk.input_gradients;
        } else if (chunk.previous_chunk >= 0) {
            ChunkState& previous = chunks_[at(chunk.previous_chunk)];
            binding.input_gradient = previous.held[at(action.micro_batch)].output_gradient =
                previous.output_gradients.take();
            binding.input_gradient_is_previous = true;
        }
    }

    void release(ChunkState& chunk, Held& held, ActionKind kind) {
        const auto give_back = [](Pool& pool, int& index) {
            if (index >= 0) pool.give_back(index);
            index = -1;
        };
        if (is_input_half(kind) || forward_pass_) {
            give_back(chunk.inputs, held.input);
            give_back(chunk.forward_slots, held.forward_slot);
        }
        if (is_weight_half(kind) || forward_pass_) {
            give_back(chunk.output_gradients, held.output_gradient);
            give_back(chunk.linear_input_slots, held.linear_input_slot);
            give_back(chunk.output_gradient_slots, held.output_gradient_slot);
        }
    }

    const Schedule& schedule_;
    bool forward_pass_;
    const std::vector<int>& chunk_of_place_;
    Program program_;
    std::vector<ChunkState> chunks_;
};

}  // namespace

int& ring_size(RingSizes& sizes, int place, Ring ring) {
    return sizes[at(place)][static_cast<std::size_t>(ring)];
}

RingSizes least_ring_sizes(const Schedule& schedule) {
    const std::vector<Neighbours> neighbours = find_neighbours(schedule);
    const bool forward_pass = pass_of(schedule) == Pass::forward;
    std::vector<HeldMessages> inputs, output_gradients;
    for (const Neighbours& place : neighbours) {
        inputs.emplace_back(place.activation_order, schedule.micro_batches);
        output_gradients.emplace_back(place.gradient_order, schedule.micro_batches);
    }
    for (const auto& actions : schedule.ranks) {
        for (const Action& action : actions) {
            const std::size_t place = at(schedule.place_of(action));
            if (neighbours[place].receives_activation) {
                if (action.kind == ActionKind::F) inputs[place].use(action.micro_batch);
                if (is_input_half(action.kind) || forward_pass) inputs[place].release();
            }
            if (neighbours[place].receives_gradient) {
                if (is_input_half(action.kind)) output_gradients[place].use(action.micro_batch);
                if (is_weight_half(action.kind)) output_gradients[place].release();
            }
        }
    }
    RingSizes sizes(neighbours.size());
    for (std::size_t place = 0; place < sizes.size(); ++place) {
        const Neighbours& around = neighbours[place];
        const auto set = [&](Ring ring, int size) { sizes[place][static_cast<std::size_t>(ring)] = size; };
        const int two = std::min(2, schedule.micro_batches);
        if (around.sends_activation) set(Ring::outputs, two);
        if (around.sends_gradient) set(Ring::input_gradients, two);
        if (around.receives_activation) set(Ring::inputs, inputs[place].ring_size());
        if (around.receives_gradient) set(Ring::output_gradients, output_gradients[place].ring_size());
    }
    return sizes;
}

std::vector<Program> assign(const Schedule& schedule, const RingSizes& sizes) {
    const std::vector<Neighbours> neighbours = find_neighbours(schedule);
    const Homes homes(schedule);
    RingSizes limits = sizes;
    std::vector<Program> programs;
    for (int rank = 0; rank < schedule.pp; ++rank)
        programs.push_back(RankAssigner(schedule, neighbours, homes, limits, rank).run());
    return programs;
}

}  // namespace escalier::schedule
