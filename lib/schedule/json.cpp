#include "schedule/json.h"

#include <nlohmann/json.hpp>
#include <set>

namespace escalier::schedule {
namespace {

using Json = nlohmann::ordered_json;

const char* name(Placement placement) {
    switch (placement) {
        case Placement::loop:
            return "loop";
        case Placement::v:
            return "v";
        case Placement::bidirectional:
            break;
    }
    return "bidirectional";
}

Json rank_object(const Timeline& timeline, const Proof& proof, std::size_t rank) {
    std::set<int> stages;
    Json actions = Json::array();
    for (const TimedAction& timed : timeline.ranks[rank]) {
        stages.insert(timed.action.stage);
        Json object = {{"action", cell(timed.action)}, {"start", timed.start}, {"end", timed.end}};
        if (timed.action.overlaps_next) object["overlaps_next"] = true;
        actions.push_back(std::move(object));
    }
    return {{"rank", rank},
            {"stages", stages},
            {"busy", timeline.busy[rank]},
            {"idle_share", timeline.idle[rank]},
            {"peak_until_weight", proof.peak_until_weight[rank]},
            {"peak_until_input", proof.peak_until_input[rank]},
            {"actions", std::move(actions)}};
}

}  // namespace

std::string to_json(const Schedule& schedule, const Durations& durations, const Timeline& timeline,
                    const Proof& proof) {
    Json object = {{"kind", schedule.kind},
                   {"placement", name(schedule.placement)},
                   {"pipeline_ranks", schedule.pp},
                   {"chunks", schedule.chunks},
                   {"stages", schedule.stages()},
                   {"copies", schedule.copies()},
                   {"micro_batches", schedule.micro_batches},
                   {"durations",
                    {{"forward", durations.forward},
                     {"input_gradient", durations.input_gradient},
                     {"weight_gradient", durations.weight_gradient},
                     {"transfer", durations.transfer},
                     {"pair_factor", durations.pair_factor}}},
                   {"makespan", timeline.makespan},
                   {"idle_share", timeline.idle_share},
                   {"span", timeline.span},
                   {"span_idle_share", timeline.span_idle_share},
                   {"messages", proof.messages},
                   {"proof",
                    {{"completes_under_rendezvous", true},  // or prove() would have refused
                     {"exact", proof.exact},
                     {"ascending_weight_gradients", proof.ascending}}}};
    Json ranks = Json::array();
    for (std::size_t rank = 0; rank < timeline.ranks.size(); ++rank)
        ranks.push_back(rank_object(timeline, proof, rank));
    object["ranks"] = std::move(ranks);
    // A kind read from a file is its path, which need not be UTF-8.
    return object.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace escalier::schedule
