#include <vector>

#include "core/check.h"
#include "schedule/csv.h"

namespace escalier::schedule {
namespace {

std::string pair_cell(const Action& first, const Action& second) {
    return "(" + cell(first) + ";" + cell(second) + ")OVERLAP_F_B";
}

void append(std::string& line, const std::string& text) {
    if (!line.empty()) line += ',';
    line += text;
}

// Runs the schedule without a clock: round by round every rank does its next action if what it needs is
// there.
class CommunicationOrder {
 public:
    CommunicationOrder(const Schedule& schedule, bool overlap)
        : schedule_(schedule),
          overlap_(overlap),
          lines_(schedule.ranks.size()),
          next_(schedule.ranks.size(), 0),
          activation_(places_x_micro_batches(), false),
          gradient_(places_x_micro_batches(), false) {}

    std::vector<std::string> lines() {
        for (bool progress = true; progress;) {
            progress = false;
            for (std::size_t rank = 0; rank < lines_.size(); ++rank) progress = step(rank) || progress;
        }
        for (std::size_t rank = 0; rank < lines_.size(); ++rank)
            ESCALIER_CHECK(next_[rank] == schedule_.ranks[rank].size(),
                           "a proved schedule has actions that wait in a circle");
        return std::move(lines_);
    }

 private:
    std::size_t places_x_micro_batches() const {
        return static_cast<std::size_t>(schedule_.stages()) *
               static_cast<std::size_t>(schedule_.micro_batches);
    }
    std::size_t index(int stage, int micro_batch) const {
        return static_cast<std::size_t>(stage) * static_cast<std::size_t>(schedule_.micro_batches) +
               static_cast<std::size_t>(micro_batch);
    }

    bool ready(const Action& action) const {
        if (action.kind == ActionKind::W) return true;
        if (action.kind == ActionKind::F)
            return action.stage == 0 || activation_[index(action.stage, action.micro_batch)];
        return action.stage == schedule_.stages() - 1 || gradient_[index(action.stage, action.micro_batch)];
    }

    bool step(std::size_t rank) {
        const auto& actions = schedule_.ranks[rank];
        if (next_[rank] == actions.size()) return false;
        const Action& first = actions[next_[rank]];
        const bool pair = overlap_ && first.overlaps_next;
        const Action& last = actions[next_[rank] + (pair ? 1 : 0)];
        if (!ready(first) || !ready(last)) return false;
        append(lines_[rank], pair ? pair_cell(first, last) : cell(first));
        send(rank, first);
        if (pair) send(rank, last);
        next_[rank] += pair ? 2 : 1;
        return true;
    }

    void send(std::size_t rank, const Action& action) {
        const bool forward = action.kind == ActionKind::F;
        const int to = action.stage + (forward ? 1 : -1);
        if (action.kind == ActionKind::W || to < 0 || to == schedule_.stages()) return;
        (forward ? activation_ : gradient_)[index(to, action.micro_batch)] = true;
        const auto receiver =
            static_cast<std::size_t>(schedule_.rank_of(to, schedule_.copy_of(action.micro_batch)));
        if (receiver == rank) return;
        const std::string suffix = (forward ? "_F" : "_B") + std::to_string(action.micro_batch);
        append(lines_[rank], std::to_string(action.stage) + "SEND" + suffix);
        append(lines_[receiver], std::to_string(to) + "RECV" + suffix);
    }

    const Schedule& schedule_;
    bool overlap_;
    std::vector<std::string> lines_;
    std::vector<std::size_t> next_;            // per rank, index of its next action
    std::vector<bool> activation_, gradient_;  // is there, per stage and micro-batch
};

std::vector<std::string> compute_lines(const Schedule& schedule, bool overlap) {
    std::vector<std::string> lines;
    for (const auto& actions : schedule.ranks) {
        std::string line;
        for (std::size_t i = 0; i < actions.size(); ++i) {
            const bool pair = overlap && actions[i].overlaps_next;
            append(line, pair ? pair_cell(actions[i], actions[i + 1]) : cell(actions[i]));
            if (pair) ++i;
        }
        lines.push_back(std::move(line));
    }
    return lines;
}

}  // namespace

std::string to_csv(const Schedule& schedule, const CsvOptions& options) {
    const auto lines = options.communication ? CommunicationOrder(schedule, options.overlap).lines()
                                             : compute_lines(schedule, options.overlap);
    std::string text;
    for (const std::string& line : lines) text += line + '\n';
    return text;
}

}  // namespace escalier::schedule
