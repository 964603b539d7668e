// What may be put between the parts of an assembly. verify listens in through it, and its tests plant faults;
// nothing else sets any of it.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "kernels/ops.h"
#include "model/stage_model.h"
#include "parallel/groups.h"

namespace escalier::train {

// Makes what the executor runs in the place of `inner`, which is the stage `model` itself or what an earlier
// hook made of it.
using StageHook =
    std::function<std::unique_ptr<model::Stage>(const model::StageModel& model, model::Stage& inner)>;

struct AssemblyHooks {
    std::function<void(parallel::Groups&)> groups;          // before anything uses them
    std::function<void(model::ParameterList&)> parameters;  // as sums, norm and optimizer read them
    const kernels::Ops* ops = nullptr;                      // null: the backend's
    std::vector<StageHook> stages;
    std::vector<StageHook> boundaries;  // around all of `stages`: what arrives passes them first
};

}  // namespace escalier::train
