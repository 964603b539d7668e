#include "train/memory_report.h"

#include <algorithm>
#include <string>

#include "core/machine_facts.h"

namespace escalier::train {

namespace {

std::vector<std::uint64_t> gather(std::vector<std::uint64_t> own, comm::Communicator& job,
                                  const char* label) {
    const auto count = static_cast<std::int64_t>(own.size());
    std::vector<std::uint64_t> all(own.size() * static_cast<std::size_t>(job.size()));
    job.all_gather(TensorView(all.data(), DType::u64, {count * job.size()}),
                   TensorView(own.data(), DType::u64, {count}), label);
    return all;
}

}  // namespace

std::vector<std::vector<device::ArenaSize>> gather_arenas(const device::Arenas& arenas,
                                                          comm::Communicator& job) {
    const std::vector<device::ArenaSize> own = arenas.sizes();
    std::vector<std::uint64_t> bytes;
    for (const device::ArenaSize& arena : own) bytes.push_back(arena.bytes);
    const std::vector<std::uint64_t> all = gather(bytes, job, "memory of every rank");
    std::vector<std::vector<device::ArenaSize>> ranks(static_cast<std::size_t>(job.size()), own);
    for (std::size_t i = 0; i < all.size(); ++i)
        ranks[i / own.size()][i % own.size()].bytes = static_cast<std::size_t>(all[i]);
    return ranks;
}

std::vector<std::int64_t> gather_peak_resident(comm::Communicator& job) {
    const std::vector<std::uint64_t> all =
        gather({static_cast<std::uint64_t>(peak_resident_bytes())}, job, "resident memory of every rank");
    return {all.begin(), all.end()};
}

std::int64_t arena_bytes(const std::vector<device::ArenaSize>& arenas) {
    std::int64_t bytes = 0;
    for (const device::ArenaSize& arena : arenas) bytes += static_cast<std::int64_t>(arena.bytes);
    return bytes;
}

nlohmann::ordered_json arenas_json(const std::vector<device::ArenaSize>& arenas) {
    nlohmann::ordered_json object;
    for (const device::ArenaSize& arena : arenas) {
        std::string key = arena.name;
        std::replace(key.begin(), key.end(), ' ', '_');
        object[key] = arena.bytes;
    }
    return object;
}

}  // namespace escalier::train
