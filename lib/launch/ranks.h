// How many ranks a job is started with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/job_spec.h"
#include "launch/allocation.h"
#include "launch/hosts.h"
#include "launch/machine.h"

namespace escalier::launch {

// Where ranks find a place of their own.
struct Room {
    std::int64_t places = 1;
    std::string text;  // "8 cores of this machine"
};

// A GPU per rank where the job runs on GPUs (run.device auto: where there are any), else a core; of the hosts
// (empty: none named) or of the allocation where there is one.
Room room_for_ranks(const config::RunConfig& run, const Machine& machine, const std::vector<Host>& hosts,
                    const std::optional<Allocation>& allocation);

struct Ranks {
    std::int64_t count = 1;
    std::string note;  // how they were chosen where the job leaves it open; else empty
};

// The grid of the job as loaded, before its `auto` values are resolved: tp x pp x dp. Where dp is auto, as
// many replicas as `room` has places for, fewer where train.global_batch does not divide; one at least.
// asked: by -n, as it is; whether it fits the grid is found when the spec is resolved.
Ranks choose_ranks(const config::JobSpec& job, std::optional<std::int64_t> asked, const Room& room);

}  // namespace escalier::launch
