// A stage whose runs of ops are recorded once and replayed: on a device that has graphs, launching a hundred
// kernels then costs the host one call.
//
// A recording belongs to everything that its ops depend on besides memory contents: the kind of action, its
// slots and boundary buffers, whether accumulators are overwritten. Micro-batches share recordings, since a
// stage finds its micro-batch always in the same place (StageModel::begin_action). Collectives are not
// recorded.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <vector>

#include "device/device.h"
#include "model/stage_model.h"

namespace escalier::model {

class GraphStage final : public Stage {
 public:
    // The device has graphs. Both outlive this.
    GraphStage(StageModel& stage, device::Device& device);

    std::span<const Segment> segments(schedule::ActionKind kind) const override;
    void run(int segment, const StageIo& io) override;
    bool start(int segment, const StageIo& io) override;
    void finish(int segment, const StageIo& io) override;

 private:
    struct Run {  // of segments of the stage itself: [first, end)
        int first, end;
    };
    struct Plan {
        std::vector<Segment> segments;
        std::vector<Run> runs;
    };
    // Kind, segment, binding, accumulation, boundary buffers.
    using Key = std::array<std::uintptr_t, 10>;

    static Plan merged(std::span<const Segment> segments);
    const Plan& plan_of(schedule::ActionKind kind) const { return plans_[static_cast<std::size_t>(kind)]; }
    int first_of(int segment, const StageIo& io) const;
    Key key_of(int segment, const StageIo& io) const;
    void replay(int segment, const StageIo& io);

    StageModel& stage_;
    device::Device& device_;
    std::array<Plan, 4> plans_;
    std::map<Key, std::unique_ptr<device::Graph>> graphs_;
};

}  // namespace escalier::model
