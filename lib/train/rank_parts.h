// All of one rank that takes memory from arenas, for those that train and for those that plan: in measuring
// arenas it counts to the byte what it takes in allocated ones.
#pragma once

#include "checkpoint/saver.h"
#include "train/rank_model.h"
#include "train/rank_seat.h"
#include "train/train_step.h"

namespace escalier::train {

struct RankParts {
    // spec: resolved and settled on seat.backend.
    RankParts(const config::JobSpec& spec, const RankSeat& seat, device::Arenas& arenas);
    RankParts(const RankParts&) = delete;
    RankParts& operator=(const RankParts&) = delete;

    RankModel model;
    TrainStep step;
    checkpoint::StateList state;  // what checkpoints hold of this rank
    checkpoint::Saver saver;
};

}  // namespace escalier::train
