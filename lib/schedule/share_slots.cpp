#include "schedule/share_slots.h"

#include <map>
#include <utility>

#include "core/check.h"

namespace escalier::schedule {
namespace {

// Numbers from 0, the least free one that was given back last.
class Numbers {
 public:
    int take() {
        if (free_.empty()) return count_++;
        const int number = free_.back();
        free_.pop_back();
        return number;
    }
    void give_back(int number) { free_.push_back(number); }
    int count() const { return count_; }

 private:
    int count_ = 0;
    std::vector<int> free_;
};

// One class of slots of one group of chunks. A slot is held by a stage's micro-batch.
class Slots {
 public:
    int take(int chunk, int micro_batch) { return held_[{chunk, micro_batch}] = numbers_.take(); }
    int held(int chunk, int micro_batch) const { return held_.at({chunk, micro_batch}); }
    void release(int chunk, int micro_batch) {
        const auto at = held_.find({chunk, micro_batch});
        numbers_.give_back(at->second);
        held_.erase(at);
    }
    int count() const { return numbers_.count(); }

 private:
    Numbers numbers_;
    std::map<std::pair<int, int>, int> held_;
};

struct Group {
    Slots forward, linear_inputs, output_gradients;
};

void bind(Group& group, Instruction& instruction) {
    const int chunk = instruction.chunk, micro_batch = instruction.action.micro_batch;
    Binding& binding = instruction.binding;
    const ActionKind kind = instruction.action.kind;
    if (kind == ActionKind::F) {
        binding.forward_slot = group.forward.take(chunk, micro_batch);
        binding.linear_input_slot = group.linear_inputs.take(chunk, micro_batch);
        return;
    }
    if (kind != ActionKind::W) {
        binding.forward_slot = group.forward.held(chunk, micro_batch);
        group.output_gradients.take(chunk, micro_batch);
    }
    binding.linear_input_slot = group.linear_inputs.held(chunk, micro_batch);
    binding.output_gradient_slot = group.output_gradients.held(chunk, micro_batch);
}

void release(Group& group, const Instruction& instruction, bool forward_pass) {
    const int chunk = instruction.chunk, micro_batch = instruction.action.micro_batch;
    const ActionKind kind = instruction.action.kind;
    if (kind == ActionKind::F && !forward_pass) return;
    if (kind != ActionKind::W) group.forward.release(chunk, micro_batch);
    if (kind != ActionKind::I) group.linear_inputs.release(chunk, micro_batch);
    if (kind == ActionKind::B || kind == ActionKind::W) group.output_gradients.release(chunk, micro_batch);
}

}  // namespace

void share_slots(Program& program, const std::vector<int>& groups) {
    ESCALIER_CHECK(groups.size() == program.chunks.size(), "one group per chunk");
    std::map<int, Group> by_name;
    const auto group_of = [&](int chunk) -> Group& {
        return by_name[groups[static_cast<std::size_t>(chunk)]];
    };
    bool forward_pass = true;
    for (const Instruction& instruction : program.instructions)
        if (instruction.kind == InstructionKind::compute && instruction.action.kind != ActionKind::F)
            forward_pass = false;
    const Instruction* partner =
        nullptr;  // the first of an overlapped pair holds its slots until both are done
    for (Instruction& instruction : program.instructions) {
        if (instruction.kind != InstructionKind::compute) continue;
        bind(group_of(instruction.chunk), instruction);
        if (instruction.action.overlaps_next) {
            partner = &instruction;
            continue;
        }
        if (partner) release(group_of(partner->chunk), *partner, forward_pass);
        partner = nullptr;
        release(group_of(instruction.chunk), instruction, forward_pass);
    }
    for (std::size_t chunk = 0; chunk < program.chunks.size(); ++chunk) {
        const Group& group = group_of(static_cast<int>(chunk));
        program.chunks[chunk].forward_slots = group.forward.count();
        program.chunks[chunk].linear_input_slots = group.linear_inputs.count();
        program.chunks[chunk].output_gradient_slots = group.output_gradients.count();
    }
}

}  // namespace escalier::schedule
