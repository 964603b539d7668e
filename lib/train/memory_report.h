// What every rank of a run took of memory, for its page and its files.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "comm/communicator.h"
#include "device/arena.h"

namespace escalier::train {

// By rank of the job, each as Arenas::sizes(). Collective.
std::vector<std::vector<device::ArenaSize>> gather_arenas(const device::Arenas& arenas,
                                                          comm::Communicator& job);
// The most that was resident of each process so far, by rank of the job, in bytes. Collective.
std::vector<std::int64_t> gather_peak_resident(comm::Communicator& job);

std::int64_t arena_bytes(const std::vector<device::ArenaSize>& arenas);
// {"parameters": bytes, "prepared_weights": bytes, ...}
nlohmann::ordered_json arenas_json(const std::vector<device::ArenaSize>& arenas);

}  // namespace escalier::train
