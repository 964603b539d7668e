#include "schedule/generators.h"

#include <algorithm>
#include <array>

#include "core/edit_distance.h"
#include "core/error.h"
#include "schedule/check.h"

namespace escalier::schedule {
namespace {

Schedule empty_schedule(const GenerateOptions& options) {
    Schedule schedule;
    schedule.kind = options.kind;
    schedule.pp = options.pp;
    schedule.chunks = options.chunks;
    schedule.micro_batches = options.micro_batches;
    schedule.ranks.resize(static_cast<std::size_t>(options.pp));
    return schedule;
}

// All forwards, then all backwards (Huang et al. 2019, arXiv 1811.06965).
Schedule gpipe(const GenerateOptions& options) {
    Schedule schedule = empty_schedule(options);
    const int last = options.micro_batches - 1;
    for (int rank = 0; rank < options.pp; ++rank) {
        auto& actions = schedule.ranks[static_cast<std::size_t>(rank)];
        for (int mb = 0; mb <= last; ++mb) actions.push_back({ActionKind::F, rank, mb});
        for (int mb = 0; mb <= last; ++mb)
            actions.push_back(
                {ActionKind::B, rank, options.backward == BackwardOrder::lifo ? last - mb : mb});
    }
    return schedule;
}

// PipeDream-Flush (Narayanan et al. 2021, arXiv 2104.04473): as many forwards as ranks follow, then one
// forward and one backward in turn, then the backwards that are left.
Schedule one_forward_one_backward(const GenerateOptions& options) {
    Schedule schedule = empty_schedule(options);
    for (int rank = 0; rank < options.pp; ++rank) {
        auto& actions = schedule.ranks[static_cast<std::size_t>(rank)];
        const int warm_up = std::min(options.pp - 1 - rank, options.micro_batches);
        for (int mb = 0; mb < warm_up; ++mb) actions.push_back({ActionKind::F, rank, mb});
        for (int mb = 0; mb < options.micro_batches; ++mb) {
            if (warm_up + mb < options.micro_batches) actions.push_back({ActionKind::F, rank, warm_up + mb});
            actions.push_back({ActionKind::B, rank, mb});
        }
    }
    return schedule;
}

constexpr std::array table = {
    Kind{"gpipe", "all forwards, then all backwards", "chunks 1, any micro-batches", true, true, gpipe},
    Kind{"1f1b", "one forward and one backward in turn, early stages ahead", "chunks 1, any micro-batches",
         true, false, one_forward_one_backward},
};

std::string unknown_kind(const std::string& name) {
    std::string known;
    for (const Kind& kind : kinds()) known += (known.empty() ? "" : ", ") + std::string(kind.name);
    const std::string_view near = nearest_kind(name);
    return "schedule `" + name + "` does not exist; " +
           (near.empty() ? "" : "did you mean `" + std::string(near) + "`? ") + "Schedules are: " + known;
}

}  // namespace

std::span<const Kind> kinds() {
    return table;
}

const Kind* find_kind(std::string_view name) {
    for (const Kind& kind : table)
        if (kind.name == name) return &kind;
    return nullptr;
}

std::string_view nearest_kind(std::string_view name) {
    std::string_view best;
    int best_distance = std::max(2, static_cast<int>(name.size()) / 3) + 1;
    for (const Kind& kind : table) {
        const int distance = edit_distance(name, kind.name);
        if (distance < best_distance) {
            best_distance = distance;
            best = kind.name;
        }
    }
    return best;
}

BackwardOrder parse_backward_order(std::string_view text) {
    if (text == "fifo") return BackwardOrder::fifo;
    if (text == "lifo") return BackwardOrder::lifo;
    throw ConfigError("backward order `" + std::string(text) + "` is neither fifo nor lifo");
}

Schedule generate(const GenerateOptions& options) {
    const Kind* kind = find_kind(options.kind);
    if (kind == nullptr) throw ConfigError(unknown_kind(options.kind));
    check_size(options.pp, options.chunks, options.micro_batches);
    if (options.chunks != 1)
        throw ConfigError("schedule `" + options.kind + "` has one chunk per rank, found chunks " +
                          std::to_string(options.chunks) + "; leave chunks at 1");
    if (options.backward == BackwardOrder::lifo && !kind->has_lifo)
        throw ConfigError("backward order lifo is for gpipe, found schedule `" + options.kind +
                          "`; use fifo");
    return kind->generate(options);
}

Schedule forward_only(Schedule schedule) {
    for (auto& actions : schedule.ranks)
        std::erase_if(actions, [](const Action& action) { return action.kind != ActionKind::F; });
    return schedule;
}

}  // namespace escalier::schedule
