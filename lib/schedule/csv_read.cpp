#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/limits.h"
#include "core/text.h"
#include "schedule/check.h"
#include "schedule/csv.h"

namespace escalier::schedule {
namespace {

constexpr std::string_view pair_suffix = ")OVERLAP_F_B";

enum class Word : std::uint8_t { F, B, I, W, BW, communication, parameters };

struct WordRow {
    std::string_view text;
    Word word;
};
constexpr std::array words = {
    WordRow{"F", Word::F},
    WordRow{"B", Word::B},
    WordRow{"I", Word::I},
    WordRow{"W", Word::W},
    WordRow{"BW", Word::BW},
    WordRow{"SEND_F", Word::communication},
    WordRow{"RECV_F", Word::communication},
    WordRow{"SEND_B", Word::communication},
    WordRow{"RECV_B", Word::communication},
    WordRow{"UNSHARD", Word::parameters},
    WordRow{"RESHARD", Word::parameters},
    WordRow{"REDUCE_GRAD", Word::parameters},
};

struct Cell {
    int stage = 0;
    Word word = Word::F;
    int micro_batch = -1;  // -1: none, in cells about parameters
    bool overlaps_next = false;
};

std::string_view trimmed(std::string_view text) {
    const auto first = text.find_first_not_of(" \t\r");
    if (first == std::string_view::npos) return "";
    return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// Stage numbers are below this, micro-batch numbers too.
constexpr int most = static_cast<int>(most_schedule_cells);

const char* read_number(const char* begin, const char* end, int& value) {
    if (begin == end || *begin < '0' || *begin > '9') return nullptr;
    const auto parsed = std::from_chars(begin, end, value);
    return parsed.ec == std::errc() && value < most ? parsed.ptr : nullptr;
}

class Reader {
 public:
    explicit Reader(const std::string& name) : name_(name) { schedule_.kind = name; }

    Schedule read(std::istream& in) {
        std::string line;
        while (std::getline(in, line)) {
            ++line_;
            std::string_view text = line;
            if (line_ == 1 && text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
            if (!trimmed(text).empty()) take_line(text);
        }
        if (in.bad()) throw IoError::read(name_ + ": the file cannot be read");
        make_actions();
        find_sizes();
        find_placement();
        check_dropped_cells();
        require_complete();
        return std::move(schedule_);
    }

 private:
    [[noreturn]] void refuse(int line, std::string_view cell, const std::string& why) const {
        throw ConfigError(name_ + ":" + std::to_string(line) + ": cell `" + shortened(cell) + "` " + why);
    }

    void take_line(std::string_view line) {
        cells_.emplace_back();
        lines_.push_back(line_);
        while (!line.empty()) {
            const auto comma = std::min(line.find(','), line.size());
            std::string_view text = trimmed(line.substr(0, comma));
            line.remove_prefix(std::min(comma + 1, line.size()));
            if (text.size() >= 2 && text.front() == '"' && text.back() == '"')
                text = trimmed(text.substr(1, text.size() - 2));
            if (text.empty()) continue;
            text.front() == '(' ? take_pair(text) : take(text, parse(text, text));
        }
    }

    void take_pair(std::string_view text) {
        const auto middle = text.find(';');
        const std::string form =
            "is no overlapped pair; write F, then B of another chunk, as in "
            "(0F3;3B5)OVERLAP_F_B";
        if (!text.ends_with(pair_suffix) || middle == std::string_view::npos) refuse(line_, text, form);
        Cell first = parse(text, trimmed(text.substr(1, middle - 1)));
        const Cell second =
            parse(text, trimmed(text.substr(middle + 1, text.size() - pair_suffix.size() - middle - 1)));
        if (first.word != Word::F || (second.word != Word::B && second.word != Word::BW))
            refuse(line_, text, form);
        first.overlaps_next = true;
        take(text, first);
        take(text, second);
    }

    // `cell` is `whole`, or one half of a pair.
    Cell parse(std::string_view whole, std::string_view cell) const {
        const auto fail = [&] {
            refuse(line_, whole,
                   "is none that PyTorch writes; write stage, F, B, I or W, micro-batch, as in 0F3, with "
                   "numbers below " +
                       std::to_string(most));
        };
        Cell read;
        const char* end = cell.data() + cell.size();
        const char* at = read_number(cell.data(), end, read.stage);
        if (at == nullptr) fail();
        const char* digits = std::find_if(at, end, [](char c) { return c >= '0' && c <= '9'; });
        const std::string_view word(at, static_cast<std::size_t>(digits - at));
        const auto row = std::find_if(words.begin(), words.end(),
                                      [&](const WordRow& known) { return known.text == word; });
        if (row == words.end()) fail();
        read.word = row->word;
        if (digits == end && read.word == Word::parameters) return read;
        if (read_number(digits, end, read.micro_batch) != end) fail();
        return read;
    }

    void take(std::string_view text, const Cell& cell) {
        if (cell.word == Word::communication || cell.word == Word::parameters) {
            dropped_.push_back({cells_.size() - 1, cell, std::string(text)});
            return;
        }
        if (cell.word == Word::BW && whole_.empty()) {
            whole_ = text;
            whole_line_ = line_;
        }
        has_input_half_ |= cell.word == Word::I;
        has_weight_half_ |= cell.word == Word::W;
        stages_ = std::max(stages_, cell.stage + 1);
        schedule_.micro_batches = std::max(schedule_.micro_batches, cell.micro_batch + 1);
        cells_.back().push_back(cell);
    }

    void make_actions() {
        const bool old_names = !whole_.empty() || (has_weight_half_ && !has_input_half_);
        if (old_names && has_input_half_)
            refuse(whole_line_, whole_,
                   "is PyTorch's old name of a whole backward, but the file has the new name I too; write B "
                   "for BW and I for the input half");
        for (const auto& row : cells_) {
            auto& actions = schedule_.ranks.emplace_back();
            for (const Cell& cell : row) {
                const ActionKind kind = cell.word == Word::F                ? ActionKind::F
                                        : cell.word == Word::W              ? ActionKind::W
                                        : cell.word == Word::I              ? ActionKind::I
                                        : cell.word == Word::B && old_names ? ActionKind::I
                                                                            : ActionKind::B;
                actions.push_back({kind, cell.stage, cell.micro_batch, cell.overlaps_next});
            }
        }
    }

    void find_sizes() {
        schedule_.pp = static_cast<int>(schedule_.ranks.size());
        if (stages_ == 0)
            throw ConfigError(name_ + ": it holds no compute cell; write one line per rank, cells like 0F3");
        if (stages_ % schedule_.pp != 0)
            throw ConfigError(name_ + ": " + std::to_string(stages_) + " stages on " +
                              std::to_string(schedule_.pp) +
                              " ranks (lines); every rank must hold the same number of stages");
    }

    struct Misfit {
        std::size_t rank = 0;
        const Action* action = nullptr;
    };
    Misfit first_misfit(Placement placement) {
        schedule_.placement = placement;
        schedule_.chunks = placement == Placement::bidirectional ? 2 : stages_ / schedule_.pp;
        for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank)
            for (const Action& action : schedule_.ranks[rank])
                if (schedule_.rank_of(action) != static_cast<int>(rank)) return {rank, &action};
        return {};
    }

    void find_placement() {
        const Misfit misfit = first_misfit(Placement::loop);
        if (misfit.action == nullptr) return;
        if (first_misfit(Placement::v).action == nullptr) return;
        const bool can_be_copies = stages_ == schedule_.pp && schedule_.micro_batches > 1;
        if (can_be_copies && first_misfit(Placement::bidirectional).action == nullptr) return;
        refuse(lines_[misfit.rank], cell(*misfit.action),
               "is out of place: the " + std::to_string(stages_) + " stages lie on the " +
                   std::to_string(schedule_.pp) +
                   " ranks (lines) neither in a loop (stage s on rank s mod ranks) nor in a V (0 1 ... 1 0)" +
                   (can_be_copies ? ", nor as two copies (the second half of the micro-batches runs up from "
                                    "the last line)"
                                  : "") +
                   "; move every stage's cells to the line of its rank");
    }

    void check_dropped_cells() const {
        for (const Dropped& dropped : dropped_) {
            const Cell& cell = dropped.cell;
            const int line = lines_[dropped.rank];
            if (cell.stage >= stages_ || cell.micro_batch >= schedule_.micro_batches)
                refuse(line, dropped.text,
                       "is of a stage or micro-batch that no compute cell has; there are stages 0 to " +
                           std::to_string(stages_ - 1) + ", micro-batches 0 to " +
                           std::to_string(schedule_.micro_batches - 1));
            if (cell.micro_batch < 0) continue;
            const auto home =
                static_cast<std::size_t>(schedule_.rank_of(cell.stage, schedule_.copy_of(cell.micro_batch)));
            if (home != dropped.rank)
                refuse(line, dropped.text,
                       "stands on the wrong line: stage " + std::to_string(cell.stage) +
                           " computes on line " + std::to_string(lines_[home]) + "; move the cell there");
        }
    }

    void require_complete() const {
        try {
            check_complete(schedule_, pass_of(schedule_));
        } catch (const IncompleteSchedule& fault) {
            const auto rank = static_cast<std::size_t>(fault.rank);
            if (fault.position >= 0)
                refuse(lines_[rank], cell(schedule_.ranks[rank][static_cast<std::size_t>(fault.position)]),
                       "is wrong: " + fault.why + "; mend the order of this line");
            throw ConfigError(name_ + ":" + std::to_string(lines_[rank]) + ": " + fault.why +
                              "; add it to this line");
        }
    }

    struct Dropped {
        std::size_t rank;
        Cell cell;
        std::string text;
    };

    const std::string& name_;
    Schedule schedule_;
    int line_ = 0;
    int stages_ = 0;
    std::vector<int> lines_;                // of each rank
    std::vector<std::vector<Cell>> cells_;  // that compute, of each rank
    std::vector<Dropped> dropped_;
    bool has_input_half_ = false, has_weight_half_ = false;
    std::string whole_;  // the first BW cell
    int whole_line_ = 0;
};

}  // namespace

Schedule from_csv(std::istream& in, const std::string& name) {
    return Reader(name).read(in);
}

}  // namespace escalier::schedule
