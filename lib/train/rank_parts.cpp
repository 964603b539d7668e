#include "train/rank_parts.h"

#include "train/rank_state.h"

namespace escalier::train {

RankParts::RankParts(const config::JobSpec& spec, const RankSeat& seat, device::Arenas& arenas)
    : model(spec, seat.groups, seat.backend, seat.pool, seat.program, seat.forward, arenas, seat.hooks),
      step(spec, seat, model, arenas),
      state(rank_state(model, step.optimizer())),
      saver(spec.checkpoint, state, seat.groups.place.dp_rank, seat.groups.grid.dp, *seat.backend.device,
            arenas) {}

}  // namespace escalier::train
