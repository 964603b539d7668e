#include "pipeline/end_exchange.h"

#include <algorithm>

#include "core/check.h"

namespace escalier::pipeline {

namespace {

ActionEnds make_ends(const std::vector<schedule::Program>& programs) {
    int stages = 1, micro_batches = 1;
    for (const schedule::Program& program : programs) {
        for (const schedule::Instruction& instruction : program.instructions) {
            stages = std::max(stages, instruction.action.stage + 1);
            micro_batches = std::max(micro_batches, instruction.action.micro_batch + 1);
        }
    }
    return ActionEnds(stages, micro_batches);
}

}  // namespace

EndExchange::EndExchange(comm::MpiEnv& env, comm::Communicator& pp,
                         const std::vector<schedule::Program>& programs)
    : pp_(pp), clock_offset_(env.clock_offset(pp)), row_(1), ends_(make_ends(programs)) {
    ESCALIER_CHECK(programs.size() == static_cast<std::size_t>(pp.size()), "one program per pipeline rank");
    for (const schedule::Program& program : programs) {
        std::vector<ActionTime>& actions = actions_.emplace_back();
        for (const schedule::Instruction& instruction : program.instructions)
            if (instruction.kind == schedule::InstructionKind::compute)
                actions.push_back({instruction.action});
        row_ = std::max(row_, 1 + 3 * actions.size());
    }
    own_.assign(row_, 0);
    all_.assign(row_ * programs.size(), 0);
}

StepSplit EndExchange::split(const StepTimes& own) {
    ESCALIER_CHECK(own.actions.size() == actions_[static_cast<std::size_t>(pp_.rank())].size(),
                   "these times are of another program");
    own_[0] = own.end + clock_offset_;
    double* to = own_.data() + 1;
    for (const ActionTime& action : own.actions) {
        *to++ = action.start + clock_offset_;
        *to++ = action.end + clock_offset_;
        *to++ = action.work;
    }
    const auto row = static_cast<std::int64_t>(row_);
    pp_.all_gather(TensorView(all_.data(), DType::f64, Shape{row * pp_.size()}),
                   TensorView(own_.data(), DType::f64, Shape{row}), "the other stages' times");
    double last_end = own.end;
    for (std::size_t rank = 0; rank < actions_.size(); ++rank) {
        const double* from = all_.data() + rank * row_;
        last_end = std::max(last_end, *from++ - clock_offset_);
        for (ActionTime& action : actions_[rank]) {
            action.start = *from++ - clock_offset_;
            action.end = *from++ - clock_offset_;
            action.work = *from++;
            ends_.set(action.action, action.end);
        }
    }
    return split_step(own, ends_, last_end);
}

}  // namespace escalier::pipeline
