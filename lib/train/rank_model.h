// The model as one rank holds it: its stages, their parameters, the tokens they read.
#pragma once

#include <memory>
#include <vector>

#include "config/job_spec.h"
#include "core/compute_pool.h"
#include "device/mirror.h"
#include "model/graph_stage.h"
#include "model/stage_model.h"
#include "parallel/groups.h"
#include "pipeline/paced_stage.h"
#include "schedule/program.h"
#include "train/assembly_hooks.h"
#include "train/backend.h"

namespace escalier::train {

// Which chunks of a program share slots of activations (schedule/share_slots.h): those whose stages have the
// same layers and recompute. spec: resolved.
std::vector<int> slot_groups(const config::JobSpec& spec, const schedule::Program& program);

class RankModel {
 public:
    // spec: resolved. program: this rank's, with slots shared by slot_groups(); `forward` (may be null)
    // another that the same stages must be able to run. hooks.groups is not for here. In measuring arenas it
    // only counts.
    RankModel(const config::JobSpec& spec, const parallel::Groups& groups, const Backend& backend,
              ComputePool& pool, const schedule::Program& program, const schedule::Program* forward,
              device::Arenas& arenas, const AssemblyHooks& hooks = {});
    RankModel(const RankModel&) = delete;
    RankModel& operator=(const RankModel&) = delete;

    const model::ModelContext& context() const { return context_; }
    const model::ParameterList& parameters() const { return parameters_; }
    const std::vector<model::Stage*>& stages() { return run_stages_; }  // as the executor runs them
    model::StageModel& stage(std::size_t chunk) { return *stages_[chunk]; }
    model::StageModel* first_stage() { return first_; }  // null where this rank has no embedding
    model::StageModel* last_stage() { return last_; }    // null where this rank has no loss head
    // What changes by step, as the host fills and reads it; without data where the rank's stages have no use
    // for it.
    struct StepMirrors {
        device::Mirror tokens, targets;  // i32 [M,R]
        device::Mirror first_samples;    // u64 [M]
        device::Mirror loss_scale;       // f32 [1]
        device::Mirror losses;           // f64 [M]
    };
    const StepMirrors& step_mirrors() const { return mirrors_; }

    // Queues the way of the mirrors' host side to the device and tells the stages; losses start at zero.
    // loss_wanted: see model::StepInputs.
    void begin_step(bool training, bool loss_wanted = true);
    void download_losses();
    void prepare_weights() const;

 private:
    void list_run_stages(const AssemblyHooks& hooks);

    model::ModelContext context_;
    std::vector<std::unique_ptr<model::RankShared>> shared_;  // one, or one per chunk
    std::vector<std::unique_ptr<model::StageModel>> stages_;
    std::vector<std::unique_ptr<model::GraphStage>> graph_stages_;     // none: stages run op by op
    std::vector<std::unique_ptr<pipeline::PacedStage>> paced_stages_;  // none: actions last as they do
    std::vector<std::unique_ptr<model::Stage>> hooked_stages_;         // what hooks made, by chunk and hook
    std::vector<model::Stage*> run_stages_;                            // as the executor runs them
    model::StageModel* first_ = nullptr;
    model::StageModel* last_ = nullptr;
    model::ParameterList parameters_;
    device::Device& device_;
    StepMirrors mirrors_;
};

}  // namespace escalier::train
