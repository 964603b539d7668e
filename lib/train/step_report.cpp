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
      all_(static_cast<std::size_t>(parts * job.size())) {
    if (job.rank() == 0) recorder_.emplace(assembly.schedule(), assembly.programs());
}

StepReport StepReporter::collect(const StepResult& result) {
    const pipeline::StepSplit split = ends_.split(assembly_.step().pipeline_times());
    // What lies between this rank's last action and the replica's last one was spent waiting in the first
    // reduction.
    tail_ = std::min(split.tail, result.reduction);
    // The executor's own work (starting messages, polling) belongs to communication.
    const double communication = result.pipeline - split.compute - split.bubble;
    double mine[parts] = {split.compute,    communication,    split.bubble + tail_, result.reduction - tail_,
                          result.optimizer, result.data_wait, result.seconds};
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
    if (recorder_) {
        report.stages = pipeline::stage_times(assembly_.schedule(), ends_.actions());
        if (!first_) recorder_->add(ends_.actions());
    }
    first_ = false;
    return report;
}

std::optional<pipeline::Bubble> StepReporter::bubble() const {
    if (!recorder_ || recorder_->steps() == 0) return std::nullopt;
    return recorder_->bubble();
}

namespace {

constexpr double RankSplit::*members[parts] = {&RankSplit::compute,   &RankSplit::exposed_communication,
                                               &RankSplit::bubble,    &RankSplit::reduction,
                                               &RankSplit::optimizer, &RankSplit::data_wait,
                                               &RankSplit::step};

}  // namespace

void add_to_sums(std::vector<RankSplit>& sums, const std::vector<RankSplit>& ranks) {
    sums.resize(ranks.size());
    for (std::size_t i = 0; i < ranks.size(); ++i)
        for (auto member : members) sums[i].*member += ranks[i].*member;
}

std::vector<RankSplit> mean_of(const std::vector<RankSplit>& sums, std::int64_t steps) {
    std::vector<RankSplit> means = sums;
    for (RankSplit& rank : means)
        for (auto member : members) rank.*member /= static_cast<double>(steps);
    return means;
}

}  // namespace escalier::train
