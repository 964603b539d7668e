// One of the two grids that verify holds against each other, on some of the world's ranks.
#pragma once

#include <memory>

#include "train/assembly.h"
#include "train/residual_recorder.h"
#include "train/side_tensors.h"

namespace escalier::train {

class VerifySide {
 public:
    // Ranks [first_rank, first_rank + the grid's) of the world. record: keep the residual stream. Collective
    // over the world; all ranks throw alike.
    VerifySide(const config::JobSpec& spec, comm::MpiEnv& env, int first_rank, AssemblyOptions options,
               bool record);

    bool member() const { return assembly_ != nullptr; }
    const config::JobSpec& spec() const { return spec_; }  // with device, transport and type settled
    // One step; zeros on ranks that are no members. Collective over the side's ranks.
    StepResult step(const data::SampleReader& reader, std::int64_t consumed, std::int64_t number);
    double learning_rate(std::int64_t number) const;

    parallel::GridPlace place() const;
    // What this rank holds after a step, or before the first (weights alone).
    SideTensors::Pieces weights();
    SideTensors::Pieces after_step();

 private:
    SideTensors::Pieces parameters(bool weights_only);
    void add_residual_stream(SideTensors::Pieces& pieces);

    config::JobSpec spec_;
    std::unique_ptr<ResidualRecorder> recorder_;
    std::unique_ptr<comm::Communicator> job_;  // null: no member
    std::unique_ptr<Assembly> assembly_;
};

}  // namespace escalier::train
