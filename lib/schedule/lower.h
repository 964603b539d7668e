// Schedule -> one program per pipeline rank: which buffer and slot every action uses, and when messages are
// posted.
#pragma once

#include <vector>

#include "schedule/action.h"
#include "schedule/program.h"

namespace escalier::schedule {

// Receives are posted as soon as a buffer is free, in the order in which the other end sends; sends follow
// their compute; a stage's reduction follows its last B or W.
//
// Ring sizes. L = messages that must be held at once because a compute needs them or a later one of the same
// channel is needed before them (inputs: F to I; output gradients: I to W). Then
//   inputs, output gradients: L + 1, the one more being received meanwhile;
//   outputs, input gradients: 2, one being sent while the other is written;
// no ring larger than its number of messages. With these a receive is always posted before the compute that
// precedes its use on the channel, so one compute hides one transfer. Some schedules let a sender run further
// ahead; there the rings on the critical path grow, up to what a sender without limits fills, until the
// simulated makespan is that of unlimited buffers, at unit durations.
//
// ConfigError when the schedule is incomplete or its actions wait for one another in a circle.
std::vector<Program> lower(const Schedule& schedule);

// The same with the rings of the rule above as they are, which may slow a schedule down.
std::vector<Program> lower_with_least_rings(const Schedule& schedule);

}  // namespace escalier::schedule
