#include "pipeline/cost_stage.h"

#include <algorithm>

namespace escalier::pipeline {

using schedule::Action;
using schedule::ActionKind;

// What the stages of a rank share.
struct CostStages::Rank {
    Clock& clock;
    double pair_factor;
    bool in_pair = false;  // the first action of an overlapped pair has run, the second has not
    int alive_until_weight = 0, alive_until_input = 0;
    int peak_until_weight = 0, peak_until_input = 0;

    void count(ActionKind kind) {
        if (kind == ActionKind::F) {
            peak_until_weight = std::max(peak_until_weight, ++alive_until_weight);
            peak_until_input = std::max(peak_until_input, ++alive_until_input);
        }
        if (kind == ActionKind::B || kind == ActionKind::W) --alive_until_weight;
        if (kind == ActionKind::B || kind == ActionKind::I) --alive_until_input;
    }

    void pass(const Action& action, double duration) {
        const bool of_pair = action.overlaps_next || in_pair;
        clock.spend(of_pair ? duration * pair_factor : duration);
        in_pair = action.overlaps_next;
    }
};

class CostStages::OneStage final : public model::Stage {
 public:
    OneStage(Rank& rank, int stage, const schedule::Durations& durations)
        : rank_(rank), stage_(stage), durations_(durations) {}

    std::span<const model::Segment> segments(ActionKind) const override { return segments_; }

    // The first segment takes no time: between the two the executor polls, and messages that come in early
    // must not count before they are needed.
    void run(int segment, const model::StageIo& io) override {
        if (segment == 0) return;
        rank_.count(io.action.kind);
        rank_.pass(io.action, durations_.of(io.action.kind, stage_));
    }

 private:
    Rank& rank_;
    int stage_;
    schedule::Durations durations_;
    std::vector<model::Segment> segments_ = {{model::SegmentType::compute, "nothing"},
                                             {model::SegmentType::compute, "set duration"}};
};

CostStages::CostStages(const schedule::Program& program, const schedule::Durations& durations, Clock& clock)
    : rank_(new Rank{clock, durations.pair_factor}) {
    for (const schedule::StageBuffers& chunk : program.chunks)
        stages_.push_back(std::make_unique<OneStage>(*rank_, chunk.stage, durations));
}

CostStages::~CostStages() = default;

std::vector<model::Stage*> CostStages::stages() const {
    std::vector<model::Stage*> stages;
    for (const auto& stage : stages_) stages.push_back(stage.get());
    return stages;
}

int CostStages::peak_until_weight() const {
    return rank_->peak_until_weight;
}

int CostStages::peak_until_input() const {
    return rank_->peak_until_input;
}

}  // namespace escalier::pipeline
