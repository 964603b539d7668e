// Schedules of several chunks per rank, stage s on rank s mod P.
#include <algorithm>

#include "schedule/generators/kinds.h"

namespace escalier::schedule::generators {
namespace {

// One forward of a chunk that a rank visits.
struct Visit {
    int chunk;
    int micro_batch;
};

// How many micro-batches go through a chunk before the next chunk's turn. No group is smaller than the
// pipeline: its forwards would come round the ring to the next chunk too late, and some sizes would deadlock.
// The default groups are equal or differ by one. A given size that does not divide the micro-batches leaves a
// short last group, which counts P; what goes beyond the last micro-batch is left out.
std::vector<int> group_sizes(const GenerateOptions& options) {
    const int micro_batches = options.micro_batches;
    std::vector<int> sizes;
    if (options.group == 0) {
        const int groups = std::max(1, micro_batches / options.pp);
        for (int i = 0; i < groups; ++i)
            sizes.push_back(micro_batches / groups + (i < micro_batches % groups ? 1 : 0));
        return sizes;
    }
    for (int left = micro_batches; left > 0; left -= options.group)
        sizes.push_back(std::max(std::min(options.group, left), std::min(options.group, options.pp)));
    return sizes;
}

// Group after group goes through all chunks.
std::vector<Visit> visits(const GenerateOptions& options, const std::vector<int>& groups) {
    std::vector<Visit> visits;
    int first = 0;
    for (const int size : groups) {
        for (int chunk = 0; chunk < options.chunks; ++chunk)
            for (int mb = first; mb < first + size; ++mb) visits.push_back({chunk, mb});
        first += size;
    }
    return visits;
}

// Every rank makes the visits in the same order, with forwards and, last chunk first, with backwards.
// The first backward waits for the first group's forwards through all chunks but the last, and for `hops`
// more per rank that follows; from then on forwards and backwards take turns. With `split`, the weight half
// on rank r comes r backwards after the input half.
Schedule interleave(const GenerateOptions& options, int hops, bool split) {
    Schedule schedule = empty_schedule(options, Placement::loop);
    const std::vector<int> groups = group_sizes(options);
    const std::vector<Visit> order = visits(options, groups);
    for (int rank = 0; rank < options.pp; ++rank) {
        auto& actions = schedule.ranks[static_cast<std::size_t>(rank)];
        const auto append = [&](ActionKind kind, std::size_t at) {
            if (at >= order.size()) return;
            const Visit& visit = order[at];
            const int chunk = kind == ActionKind::F ? visit.chunk : options.chunks - 1 - visit.chunk;
            if (visit.micro_batch < options.micro_batches)
                actions.push_back({kind, chunk * options.pp + rank, visit.micro_batch});
        };
        const auto warm_up =
            static_cast<std::size_t>(hops * (options.pp - 1 - rank) + (options.chunks - 1) * groups.front());
        const std::size_t lag = split ? std::min(static_cast<std::size_t>(rank), order.size()) : 0;
        for (std::size_t i = 0; i < std::min(warm_up, order.size()); ++i) append(ActionKind::F, i);
        for (std::size_t i = 0; i < order.size() + lag; ++i) {
            append(ActionKind::F, warm_up + i);
            append(split ? ActionKind::I : ActionKind::B, i);
            if (split && i >= lag) append(ActionKind::W, i - lag);
        }
    }
    return schedule;
}

}  // namespace

// Megatron's interleaved 1f1b (Narayanan et al. 2021, arXiv 2104.04473; with a group size of its own, Llama
// 3, arXiv 2407.21783).
Schedule interleaved(const GenerateOptions& options) {
    return interleave(options, 2, false);
}

// PyTorch's ScheduleInterleavedZeroBubble: half the forwards ahead, since backwards arrive earlier when they
// do not wait for weight gradients (Qi et al. 2023, arXiv 2401.10241).
Schedule interleaved_zb(const GenerateOptions& options) {
    return interleave(options, 1, true);
}

// Breadth first (Lamy-Poirier 2023, arXiv 2211.05953): all micro-batches through a chunk, then the next
// chunk; backwards through the chunks in reverse.
Schedule bfs(const GenerateOptions& options) {
    Schedule schedule = empty_schedule(options, Placement::loop);
    const int last = options.micro_batches - 1;
    for (int rank = 0; rank < options.pp; ++rank) {
        auto& actions = schedule.ranks[static_cast<std::size_t>(rank)];
        for (int stage = rank; stage < schedule.stages(); stage += options.pp)
            for (int mb = 0; mb <= last; ++mb) actions.push_back({ActionKind::F, stage, mb});
        for (int stage = schedule.stages() - options.pp + rank; stage >= 0; stage -= options.pp)
            for (int mb = 0; mb <= last; ++mb)
                actions.push_back(
                    {ActionKind::B, stage, options.backward == BackwardOrder::lifo ? last - mb : mb});
    }
    return schedule;
}

}  // namespace escalier::schedule::generators
