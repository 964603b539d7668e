#include "train/step_report.h"

#include <algorithm>

namespace escalier::train {

namespace {

constexpr std::int64_t parts = 7;

}  // namespace

StepReporter::StepReporter(Assembly& assembly, comm::MpiEnv& env, comm::Communicator& job)
    : assembly_(assembly),
      job_(job),
      ends_(env, *assembly.groups().pp, assembly.programs()),
      all_(static_cast<std::size_t>(parts * job.size())) {}

StepReport StepReporter::collect(const StepResult& result) {
    const pipeline::StepSplit split = ends_.split(assembly_.step().pipeline_times());
    // What lies between this rank's last action and the replica's last one was spent waiting in the first
    // reduction.
    const double tail = std::min(split.tail, result.reduction);
    double mine[parts] = {split.compute,       split.tensor_collectives + split.exposed + split.rest,
                          split.bubble + tail, result.reduction - tail,
                          result.optimizer,    result.data_wait,
                          result.seconds};
    job_.all_gather(TensorView(all_.data(), DType::f64, {job_.size() * parts}),
                    TensorView(mine, DType::f64, {parts}), "where the step went");
    StepReport report;
    report.loss = result.loss;
    report.grad_norm = result.grad_norm;
    for (int rank = 0; rank < job_.size(); ++rank) {
        const double* p = all_.data() + rank * parts;
        report.ranks.push_back({p[0], p[1], p[2], p[3], p[4], p[5], p[6]});
        report.seconds = std::max(report.seconds, report.ranks.back().step);
    }
    return report;
}

void add_to_sums(std::vector<RankSplit>& sums, const std::vector<RankSplit>& ranks) {
    sums.resize(ranks.size());
    for (std::size_t i = 0; i < ranks.size(); ++i) {
        sums[i].compute += ranks[i].compute;
        sums[i].exposed_communication += ranks[i].exposed_communication;
        sums[i].bubble += ranks[i].bubble;
        sums[i].reduction += ranks[i].reduction;
        sums[i].optimizer += ranks[i].optimizer;
        sums[i].data_wait += ranks[i].data_wait;
        sums[i].step += ranks[i].step;
    }
}

}  // namespace escalier::train
