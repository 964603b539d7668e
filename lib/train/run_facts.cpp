#include "train/run_facts.h"

#include <nlohmann/json.hpp>

#include "kernels/matrix_library.h"

namespace escalier::train {

namespace {

nlohmann::ordered_json origin(const std::string& resumed_from) {
    nlohmann::ordered_json facts = {{"resumed_from", nullptr}};
    if (!resumed_from.empty()) facts["resumed_from"] = resumed_from;
    return facts;
}

}  // namespace

std::string origin_facts(const std::string& resumed_from) {
    return origin(resumed_from).dump(2) + "\n";
}

std::string run_facts(const Assembly& assembly, const comm::MpiEnv& env, const parallel::RankTable& ranks,
                      const std::string& resumed_from) {
    const parallel::Grid& grid = assembly.groups().grid;
    nlohmann::ordered_json facts = origin(resumed_from);
    facts["grid"] = {{"tp", grid.tp}, {"pp", grid.pp}, {"dp", grid.dp}};
    facts["compiler"] = __VERSION__;
    facts["mpi"] = env.version();
    facts["matrix_library"] = kernels::cpu_matrix_library();
    const config::JobSpec& spec = assembly.spec();
    facts["schedule"] = {{"kind", spec.pipeline.schedule},
                         {"chunks", assembly.schedule().chunks},
                         {"micro_batches", assembly.schedule().micro_batches},
                         {"layers_per_stage", spec.pipeline.layers_per_stage}};
    if (spec.pipeline.group) facts["schedule"]["group"] = *spec.pipeline.group;
    if (!spec.pipeline.file.empty()) facts["schedule"]["file"] = spec.pipeline.file;
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const parallel::RankRow& row : ranks.rows)
        rows.push_back({{"rank", row.rank},
                        {"host", row.host},
                        {"local_rank", row.local_rank},
                        {"cores", row.cores},
                        {"threads", row.threads},
                        {"device", row.device.empty() ? "cpu" : row.device},
                        {"tp_rank", row.place.tp_rank},
                        {"dp_rank", row.place.dp_rank},
                        {"pp_rank", row.place.pp_rank},
                        {"stages", row.stages}});
    facts["ranks"] = std::move(rows);
    return facts.dump(2) + "\n";
}

}  // namespace escalier::train
