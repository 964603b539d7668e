// What a checkpoint holds of this rank.
#pragma once

#include "checkpoint/state.h"
#include "optim/optimizer.h"
#include "train/rank_model.h"

namespace escalier::train {

// Weights and the moments that the optimizer keeps; a weight that tied entries share on this rank once.
checkpoint::StateList rank_state(const RankModel& model, const optim::Optimizer& optimizer);

}  // namespace escalier::train
