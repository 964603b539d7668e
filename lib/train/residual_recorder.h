// Keeps what the stages of a rank leave in the residual stream during a step, and what they received of it,
// for who compares grids.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "device/device.h"
#include "train/assembly_hooks.h"

namespace escalier::train {

class ResidualRecorder {
 public:
    struct Key {
        std::int64_t point;  // model::ResidualPoint
        bool gradient;
        int micro_batch;
        bool received = false;  // as it came from the stage that computed it
        auto operator<=>(const Key&) const = default;
    };

    // Hooks every stage of an assembly; the recorder outlives it. Needs stages that run op by op, not
    // recorded ones (run.cuda_graphs).
    StageHook hook();
    // The assembly's, before the first step.
    void set_device(device::Device& device) { device_ = &device; }
    // Of the last step: [R,C], f32.
    const std::map<Key, std::vector<float>>& values() const { return values_; }

 private:
    class RecordedStage;
    void keep(const model::ResidualPoint& point, int micro_batch, bool received);

    device::Device* device_ = nullptr;
    std::map<Key, std::vector<float>> values_;
};

}  // namespace escalier::train
