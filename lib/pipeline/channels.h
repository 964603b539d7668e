// The channels of one rank's stages: for every edge between two stages, of a copy of the model, that live on
// different pipeline ranks, one for activations and one for gradients, each with a communicator of its own.
// By stage edge, not by pair of ranks: with two ranks and several chunks each, messages of different edges
// could else be mixed up.
#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/transport.h"
#include "schedule/action.h"
#include "schedule/program.h"

namespace escalier::pipeline {

class Channels {
 public:
    // Collective over `pp`, a group for host tensors. programs: of all pipeline ranks, by rank;
    // more_programs: others that will use the same channels, one after the other (validation), may be empty.
    // synchronous_sends: see MpiEnv::make_channel.
    Channels(comm::Transport& transport, comm::Communicator& pp, const schedule::Schedule& schedule,
             const std::vector<schedule::Program>& programs,
             const std::vector<schedule::Program>& more_programs = {}, bool synchronous_sends = false);

    // Of the edge from `stage` to stage + 1 of a copy of the model; null where this rank has no end of it, or
    // both.
    comm::Channel* activation(int stage, int copy = 0) { return edge(stage, copy, activations_); }
    comm::Channel* gradient(int stage, int copy = 0) { return edge(stage, copy, gradients_); }

 private:
    using Edges = std::vector<std::unique_ptr<comm::Channel>>;
    comm::Channel* edge(int stage, int copy, Edges& edges) const {
        if (stage < 0 || stage >= stages_ - 1) return nullptr;
        return edges[static_cast<std::size_t>(copy * stages_ + stage)].get();
    }

    int stages_ = 1;
    Edges activations_;  // by place (schedule/action.h) of the lower stage
    Edges gradients_;
};

}  // namespace escalier::pipeline
