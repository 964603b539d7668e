#include "schedule/generators.h"

#include <algorithm>
#include <array>

#include "core/edit_distance.h"
#include "core/error.h"
#include "schedule/check.h"
#include "schedule/generators/kinds.h"

namespace escalier::schedule {

Schedule generators::empty_schedule(const GenerateOptions& options, Placement placement) {
    Schedule schedule;
    schedule.kind = options.kind;
    schedule.pp = options.pp;
    schedule.chunks = options.chunks;
    schedule.micro_batches = options.micro_batches;
    schedule.placement = placement;
    schedule.ranks.resize(static_cast<std::size_t>(options.pp));
    return schedule;
}

namespace {

using namespace generators;

constexpr std::array table = {
    Kind{.name = "gpipe",
         .description = "all forwards, then all backwards",
         .constraint = "chunks 1, any micro-batches",
         .default_chunks = 1,
         .exact = true,
         .has_lifo = true,
         .has_group = false,
         .problem = one_chunk_problem,
         .generate = gpipe},
    Kind{.name = "1f1b",
         .description = "one forward and one backward in turn, early stages ahead",
         .constraint = "chunks 1, any micro-batches",
         .default_chunks = 1,
         .exact = true,
         .has_lifo = false,
         .has_group = false,
         .problem = one_chunk_problem,
         .generate = one_forward_one_backward},
    Kind{.name = "interleaved",
         .description = "1f1b over several chunks per rank: a smaller bubble, more messages",
         .constraint = "chunks 2 or more, any micro-batches, group from the ranks to the micro-batches",
         .default_chunks = 2,
         .exact = true,
         .has_lifo = false,
         .has_group = true,
         .problem = interleaved_problem,
         .generate = interleaved},
    Kind{.name = "bfs",
         .description = "breadth first: all micro-batches through each chunk in turn, then back",
         .constraint = "chunks 2 or more, any micro-batches",
         .default_chunks = 2,
         .exact = true,
         .has_lifo = true,
         .has_group = false,
         .problem = bfs_problem,
         .generate = bfs},
    Kind{.name = "zb-h1",
         .description = "1f1b with the weight gradients moved to the end: a third of its bubble, same memory",
         .constraint = "chunks 1, any micro-batches",
         .default_chunks = 1,
         .exact = true,
         .has_lifo = false,
         .has_group = false,
         .problem = one_chunk_problem,
         .generate = zb_h1},
    Kind{.name = "zb-h2",
         .description = "zb-h1 with the start filled too: hardly a bubble, twice the memory",
         .constraint = "chunks 1, any micro-batches, best from twice the ranks on",
         .default_chunks = 1,
         .exact = true,
         .has_lifo = false,
         .has_group = false,
         .problem = one_chunk_problem,
         .generate = zb_h2},
    Kind{.name = "interleaved-zb",
         .description = "interleaved with the weight gradients moved to the end",
         .constraint = "chunks 2 or more, any micro-batches, group from the ranks to the micro-batches",
         .default_chunks = 2,
         .exact = true,
         .has_lifo = false,
         .has_group = true,
         .problem = interleaved_zb_problem,
         .generate = interleaved_zb},
    Kind{.name = "zbv",
         .description = "zero bubble in V placement: hardly a bubble, the memory of 1f1b, twice the messages",
         .constraint = "chunks 2, any micro-batches, best from twice the ranks on",
         .default_chunks = 2,
         .exact = true,
         .has_lifo = false,
         .has_group = false,
         .problem = two_chunks_problem,
         .generate = zbv},
    Kind{.name = "v-half",
         .description = "V placement at half of 1f1b's activation memory",
         .constraint = "chunks 2, any micro-batches",
         .default_chunks = 2,
         .exact = true,
         .has_lifo = false,
         .has_group = false,
         .problem = two_chunks_problem,
         .generate = v_half},
    Kind{.name = "v-min",
         .description = "V placement at a third of 1f1b's activation memory",
         .constraint = "chunks 2, any micro-batches",
         .default_chunks = 2,
         .exact = true,
         .has_lifo = false,
         .has_group = false,
         .problem = two_chunks_problem,
         .generate = v_min},
    Kind{.name = "dualpipe",
         .description = "two copies of the model, micro-batches from both ends, forwards and backwards in "
                        "overlapped pairs",
         .constraint = "chunks 2, even pipeline ranks, 2 or more micro-batches, best from twice the ranks on",
         .default_chunks = 2,
         .exact = false,
         .has_lifo = false,
         .has_group = false,
         .copies = 2,
         .problem = dualpipe_problem,
         .generate = dualpipe},
    Kind{.name = "dualpipev",
         .description = "dualpipe with one copy of the model, cut in half and laid in a V",
         .constraint = "chunks 2, any micro-batches, best from twice the ranks on",
         .default_chunks = 2,
         .exact = true,
         .has_lifo = false,
         .has_group = false,
         .problem = two_chunks_problem,
         .generate = dualpipev},
    Kind{.name = "auto",
         .description = "built for this model's times and memory",
         .constraint = "any chunks, any micro-batches",
         .default_chunks = 1,
         .exact = true,
         .has_lifo = false,
         .has_group = false,
         .has_costs = true,
         .problem = auto_problem,
         .generate = auto_schedule},
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

const Kind& require_kind(std::string_view name) {
    const Kind* kind = find_kind(name);
    if (kind == nullptr) throw ConfigError(unknown_kind(std::string(name)));
    return *kind;
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

std::string size_problem(const Kind& kind, const GenerateOptions& options) {
    if (options.backward == BackwardOrder::lifo && !kind.has_lifo)
        return "it has no backward order lifo; use fifo";
    if (options.group != 0 && !kind.has_group)
        return "it has no group size, found group " + std::to_string(options.group) + "; leave it out";
    if (options.costs != nullptr && !kind.has_costs)
        return "it is the same whatever stages cost; leave costs and memory limits out";
    return kind.problem(options);
}

BackwardOrder parse_backward_order(std::string_view text) {
    if (text == "fifo") return BackwardOrder::fifo;
    if (text == "lifo") return BackwardOrder::lifo;
    throw ConfigError("backward order `" + std::string(text) + "` is neither fifo nor lifo");
}

Schedule generate(const GenerateOptions& options) {
    const Kind& kind = require_kind(options.kind);
    check_size(options.pp, options.chunks, options.micro_batches);
    const std::string problem = size_problem(kind, options);
    if (!problem.empty()) throw ConfigError("schedule `" + options.kind + "`: " + problem);
    return kind.generate(options);
}

Schedule forward_only(Schedule schedule) {
    for (auto& actions : schedule.ranks)
        std::erase_if(actions, [](const Action& action) { return action.kind != ActionKind::F; });
    return flattened(std::move(schedule));
}

}  // namespace escalier::schedule
