#include "replay.h"

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <tuple>

namespace escalier::schedule {
namespace {

using Ticket = std::pair<int, int>;  // place that uses a buffer's content, micro-batch

// One buffer or slot: whose content it holds or awaits.
struct Buffer {
    bool held = false;
    bool ready = false;  // content is there
    Ticket content;
};

enum class Store {
    inputs,
    outputs,
    output_gradients,
    input_gradients,
    forward,
    linear,
    output_gradient_slots
};

struct Channel {
    std::deque<std::pair<Ticket, Buffer*>> sends, receives;  // ticket: receiving stage, micro-batch
};

class Replay {
 public:
    Replay(const Schedule& schedule, const std::vector<Program>& programs, ReplayOptions options)
        : schedule_(schedule), programs_(programs), options_(options), random_(options.seed) {
        for (const auto& actions : schedule.ranks)
            for (const Action& action : actions) forward_pass_ &= action.kind == ActionKind::F;
        for (const Program& program : programs) {
            for (const StageBuffers& chunk : program.chunks) {
                const int s = chunk.copy * schedule.stages() + chunk.stage;
                make(Store::inputs, s, chunk.inputs);
                make(Store::outputs, s, chunk.outputs);
                make(Store::output_gradients, s, chunk.output_gradients);
                make(Store::input_gradients, s, chunk.input_gradients);
                make(Store::forward, s, chunk.forward_slots);
                make(Store::linear, s, chunk.linear_input_slots);
                make(Store::output_gradient_slots, s, chunk.output_gradient_slots);
            }
        }
        position_.resize(programs.size());
        blocked_.resize(programs.size());
    }

    ReplayResult run() {
        bool moved = true;
        while (moved && fault_.empty()) {
            moved = false;
            std::vector<int> order;
            for (int i = 0; i < static_cast<int>(programs_.size()) + 1; ++i) order.push_back(i);
            std::shuffle(order.begin(), order.end(), random_);
            for (const int who : order)
                moved |= who == static_cast<int>(programs_.size()) ? move_messages() : step(who);
        }
        bool completed = true;
        for (std::size_t r = 0; r < programs_.size(); ++r)
            completed &= position_[r] == programs_[r].instructions.size() && blocked_[r].empty();
        if (completed && fault_.empty()) check_end();
        return {completed, fault_};
    }

 private:
    void make(Store store, int place, int count) {
        buffers_[{store, place}].resize(static_cast<std::size_t>(count));
    }
    void fail(const std::string& what, const Action& action) {
        if (fault_.empty()) fault_ = what + " in " + cell(action);
    }
    Buffer* find(Store store, int place, int index, const Action& action) {
        auto& ring = buffers_[{store, place}];
        if (index < 0 || index >= static_cast<int>(ring.size())) {
            fail("buffer index " + std::to_string(index) + " outside its ring of " +
                     std::to_string(ring.size()),
                 action);
            return nullptr;
        }
        return &ring[static_cast<std::size_t>(index)];
    }
    void hold(Buffer* buffer, Ticket content, bool ready, const Action& action) {
        if (buffer == nullptr) return;
        if (buffer->held) fail("a live buffer is taken", action);
        *buffer = {true, ready, content};
    }
    void expect(Buffer* buffer, Ticket content, const Action& action) {
        if (buffer != nullptr && (!buffer->held || !buffer->ready || buffer->content != content))
            fail("a buffer does not hold what is read", action);
    }
    void release(Buffer* buffer) {
        if (buffer != nullptr) *buffer = {};
    }

    // Posts, sends and reductions always go on; a compute waits for messages and output buffers.
    bool step(int rank) {
        const auto r = static_cast<std::size_t>(rank);
        if (!blocked_[r].empty() || position_[r] == programs_[r].instructions.size()) return false;
        const Instruction& instruction = programs_[r].instructions[position_[r]];
        const Action& a = instruction.action;
        if (instruction.kind == InstructionKind::compute) {
            const Instruction* second = a.overlaps_next ? &instruction + 1 : nullptr;
            if (!can_compute(instruction) || (second != nullptr && !can_compute(*second))) return false;
            compute(instruction);
            if (second != nullptr) {
                compute(*second);
                ++position_[r];
            }
        } else if (instruction.kind == InstructionKind::reduce_gradients) {
            if (!reduced_.insert(schedule_.place_of(a)).second) fail("a second reduction", a);
        } else {
            communicate(r, instruction);
        }
        ++position_[r];
        return true;
    }

    void communicate(std::size_t rank, const Instruction& instruction) {
        const Action& a = instruction.action;
        const int place = schedule_.place_of(a);
        const bool activation = instruction.kind == InstructionKind::receive_activation ||
                                instruction.kind == InstructionKind::send_activation;
        const bool receives = instruction.kind == InstructionKind::receive_activation ||
                              instruction.kind == InstructionKind::receive_gradient;
        if (receives) {
            Buffer* buffer =
                find(activation ? Store::inputs : Store::output_gradients, place, instruction.buffer, a);
            hold(buffer, {place, a.micro_batch}, false, a);
            channels_[{activation, place}].receives.push_back({{place, a.micro_batch}, buffer});
            return;
        }
        const Ticket ticket{activation ? place + 1 : place - 1, a.micro_batch};
        Buffer* buffer =
            find(activation ? Store::outputs : Store::input_gradients, place, instruction.buffer, a);
        expect(buffer, ticket, a);
        channels_[{activation, ticket.first}].sends.push_back({ticket, buffer});
        if (options_.blocking_sends) blocked_[rank].insert({activation, ticket.first, ticket.second});
    }

    bool move_messages() {
        bool moved = false;
        for (auto& [key, channel] : channels_) {
            while (!channel.sends.empty() && !channel.receives.empty()) {
                const auto [sent, from] = channel.sends.front();
                const auto [expected, to] = channel.receives.front();
                if (sent != expected)
                    fail("a queue's ends disagree", {ActionKind::F, sent.first, sent.second});
                if (to != nullptr) to->ready = true;
                release(from);
                for (auto& blocked : blocked_) blocked.erase({key.first, sent.first, sent.second});
                channel.sends.pop_front();
                channel.receives.pop_front();
                moved = true;
            }
        }
        return moved;
    }

    bool waits_for(Store store, int index, const Action& action) {
        const int place = schedule_.place_of(action);
        Buffer* buffer = find(store, place, index, action);
        return buffer != nullptr && buffer->held && !buffer->ready &&
               buffer->content == Ticket{place, action.micro_batch};
    }

    // Where an action writes what a neighbour uses; null buffer: nowhere.
    struct Target {
        bool makes = false, local = false;
        int place = -1;  // that uses it
        Buffer* buffer = nullptr;
    };
    Target target_of(const Instruction& instruction) {
        const Action& a = instruction.action;
        const Binding& b = instruction.binding;
        const bool forward = a.kind == ActionKind::F;
        Target target;
        target.makes = forward ? a.stage + 1 < schedule_.stages() : a.kind != ActionKind::W && a.stage > 0;
        if (!target.makes) return target;
        const int s = schedule_.place_of(a);
        target.place = forward ? s + 1 : s - 1;
        target.local = forward ? b.output_is_next_input : b.input_gradient_is_previous;
        if (target.local != (schedule_.rank_of_place(target.place) == schedule_.rank_of_place(s)))
            fail("local hand-over is bound wrongly", a);
        const Store store = forward ? (target.local ? Store::inputs : Store::outputs)
                                    : (target.local ? Store::output_gradients : Store::input_gradients);
        target.buffer =
            find(store, target.local ? target.place : s, forward ? b.output : b.input_gradient, a);
        return target;
    }

    bool can_compute(const Instruction& instruction) {
        const Action& a = instruction.action;
        const Binding& b = instruction.binding;
        const bool first = a.stage == 0, last = a.stage == schedule_.stages() - 1;
        const bool forward = a.kind == ActionKind::F;
        const bool input_backward = a.kind == ActionKind::I || a.kind == ActionKind::B;
        if (forward && !first && waits_for(Store::inputs, b.input, a)) return false;
        if (input_backward && !last && waits_for(Store::output_gradients, b.output_gradient, a)) return false;
        const Target target = target_of(instruction);
        return target.local || target.buffer == nullptr || !target.buffer->held;  // else: not sent yet
    }

    // What F, and the two halves of the backward, take, read and give back (program.h).
    void compute(const Instruction& instruction) {
        const Action& a = instruction.action;
        const Binding& b = instruction.binding;
        const int s = schedule_.place_of(a), m = a.micro_batch;
        const bool first = a.stage == 0, last = a.stage == schedule_.stages() - 1;
        const bool forward = a.kind == ActionKind::F;
        const bool input_backward = a.kind == ActionKind::I || a.kind == ActionKind::B;
        const bool weight_backward = a.kind == ActionKind::W || a.kind == ActionKind::B;
        const Target target = target_of(instruction);
        const Ticket own{s, m};
        Buffer* input = !first && (forward || input_backward) ? find(Store::inputs, s, b.input, a) : nullptr;
        Buffer* gradient =
            !last && !forward ? find(Store::output_gradients, s, b.output_gradient, a) : nullptr;
        Buffer* slot = !forward && !input_backward ? nullptr : find(Store::forward, s, b.forward_slot, a);
        Buffer* linear = find(Store::linear, s, b.linear_input_slot, a);
        Buffer* og_slot =
            forward ? nullptr : find(Store::output_gradient_slots, s, b.output_gradient_slot, a);
        expect(input, own, a);
        expect(gradient, own, a);
        if (target.makes) hold(target.buffer, {target.place, m}, true, a);
        if (forward) {
            hold(slot, own, true, a);
            hold(linear, own, true, a);
        } else {
            expect(slot, own, a);
            expect(linear, own, a);
        }
        if (input_backward) hold(og_slot, own, true, a);
        if (weight_backward) expect(og_slot, own, a);
        if (input_backward || forward_pass_) {
            release(input);
            release(slot);
        }
        if (weight_backward || forward_pass_) {
            release(gradient);
            release(linear);
            release(og_slot);
        }
        if (weight_backward && reduced_.count(s) != 0) fail("a gradient after its reduction", a);
    }

    void check_end() {
        for (const auto& [key, ring] : buffers_)
            for (const Buffer& buffer : ring)
                if (buffer.held) fault_ = "place " + std::to_string(key.second) + " leaves a buffer held";
        for (const auto& [key, channel] : channels_)
            if (!channel.sends.empty() || !channel.receives.empty()) fault_ = "a message was left over";
        const auto places = static_cast<std::size_t>(schedule_.places());
        if (reduced_.size() != (forward_pass_ ? 0 : places)) fault_ = "a place was not reduced";
    }

    const Schedule& schedule_;
    const std::vector<Program>& programs_;
    ReplayOptions options_;
    std::mt19937 random_;
    bool forward_pass_ = true;
    std::map<std::pair<Store, int>, std::vector<Buffer>> buffers_;  // by place
    std::map<std::pair<bool, int>, Channel> channels_;              // (activation, receiving place)
    std::vector<std::size_t> position_;
    std::vector<std::set<std::tuple<bool, int, int>>> blocked_;  // messages that a rank stands still for
    std::set<int> reduced_;
    std::string fault_;
};

}  // namespace

ReplayResult replay(const Schedule& schedule, const std::vector<Program>& programs, ReplayOptions options) {
    return Replay(schedule, programs, options).run();
}

std::vector<Program> receive_late(std::vector<Program> programs) {
    for (Program& program : programs) {
        std::map<std::tuple<bool, int, int>, Instruction> receives;
        std::vector<Instruction> late;
        for (const Instruction& i : program.instructions) {
            const bool activation = i.kind == InstructionKind::receive_activation;
            if (activation || i.kind == InstructionKind::receive_gradient)
                receives[{activation, i.action.stage, i.action.micro_batch}] = i;
        }
        for (const Instruction& i : program.instructions) {
            if (i.kind == InstructionKind::receive_activation || i.kind == InstructionKind::receive_gradient)
                continue;
            const bool activation = i.action.kind == ActionKind::F;
            if (i.kind == InstructionKind::compute && i.action.kind != ActionKind::W)
                if (const auto found = receives.find({activation, i.action.stage, i.action.micro_batch});
                    found != receives.end())
                    late.push_back(found->second);
            late.push_back(i);
        }
        program.instructions = late;
    }
    return programs;
}

}  // namespace escalier::schedule
