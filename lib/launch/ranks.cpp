#include "launch/ranks.h"

#include <algorithm>

namespace escalier::launch {

namespace {

std::string counted(std::int64_t count, const std::string& what) {
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

}  // namespace

Room room_for_ranks(const config::RunConfig& run, const Machine& machine, const std::vector<Host>& hosts,
                    const std::optional<Allocation>& allocation) {
    if (!hosts.empty()) {
        const std::int64_t slots = total_slots(hosts);
        return {slots,
                counted(slots, "slot") + " of " + counted(static_cast<std::int64_t>(hosts.size()), "host")};
    }
    if (allocation) {
        if (run.device != "cpu" && allocation->gpus_per_node > 0)
            return {
                allocation->gpus_per_node * allocation->nodes,
                counted(allocation->gpus_per_node * allocation->nodes, "GPU") + " of the Slurm allocation"};
        const std::int64_t places = std::max<std::int64_t>(1, task_places(*allocation));
        const bool shared = allocation->tasks == 0 && allocation->cpus_per_task > 1;
        return {places, counted(places, allocation->tasks > 0 || shared ? "task" : "CPU") +
                            (shared ? " of " + counted(allocation->cpus_per_task, "CPU") + " each" : "") +
                            " of the Slurm allocation"};
    }
    if (run.device != "cpu" && machine.gpus > 0)
        return {machine.gpus, counted(machine.gpus, "GPU") + " of this machine"};
    return {machine.cores, counted(machine.cores, "core") + " of this machine"};
}

Ranks choose_ranks(const config::JobSpec& job, std::optional<std::int64_t> asked, const Room& room) {
    const std::int64_t replica = job.parallel.tp * job.parallel.pp;
    if (asked) return {*asked, ""};
    if (job.parallel.dp > 0) return {replica * job.parallel.dp, ""};
    const std::int64_t fitting = std::max<std::int64_t>(1, room.places / replica);
    std::int64_t dp = fitting;
    const config::TrainConfig& train = job.train;
    if (train.global_batch > 0)
        while (dp > 1 && train.global_batch % (train.micro_batch * dp) != 0) --dp;
    std::string note = "parallel.dp auto: " + room.text + " / (tp " + std::to_string(job.parallel.tp) +
                       " x pp " + std::to_string(job.parallel.pp) + ") gives dp " + std::to_string(fitting);
    if (room.places < replica) note += ", the least there is";
    if (dp != fitting)
        note += "; train.global_batch " + std::to_string(train.global_batch) + " in micro-batches of " +
                std::to_string(train.micro_batch) + " divides by dp " + std::to_string(dp);
    return {replica * dp, note + ", so " + counted(replica * dp, "rank") + " (-n sets another number)"};
}

}  // namespace escalier::launch
