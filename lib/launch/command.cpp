#include "launch/command.h"

#include <algorithm>
#include <string_view>

namespace escalier::launch {

namespace {

constexpr std::int64_t least_cores_to_bind = 2;

bool plain(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("@%+=:,./-_").find(c) != std::string_view::npos;
}

void append(Words& words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
}

std::string host_list(const std::vector<Host>& hosts) {
    std::string text;
    for (const Host& host : hosts)
        text += (text.empty() ? "" : ",") + host.name + ":" + std::to_string(host.slots);
    return text;
}

// Cores for each rank alone; 0: ranks are not bound.
std::int64_t cores_to_bind(const MpirunPlan& plan) {
    if (!plan.hosts.empty() || plan.allocation) return 0;
    const std::int64_t share = plan.machine.cores / plan.ranks;
    return share >= least_cores_to_bind ? share : 0;
}

std::int64_t slots(const MpirunPlan& plan) {
    if (!plan.hosts.empty()) return total_slots(plan.hosts);
    if (plan.allocation) return task_places(*plan.allocation);
    return plan.machine.cores;
}

}  // namespace

std::string shell_text(const Words& words) {
    std::string text;
    for (const std::string& word : words) {
        if (!text.empty()) text += ' ';
        if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) {
            text += word;
            continue;
        }
        text += '\'';
        for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
        text += '\'';
    }
    return text;
}

const MpirunSetting& as_root() {
    static const MpirunSetting setting = {{"--allow-run-as-root"},
                                          {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}};
    return setting;
}

const MpirunSetting& oversubscribed() {
    static const MpirunSetting setting = {{"--oversubscribe"}, {"OMPI_MCA_rmaps_base_oversubscribe=1"}};
    return setting;
}

const MpirunSetting& yielding() {
    static const MpirunSetting setting = {{"--mca", "mpi_yield_when_idle", "1"},
                                          {"OMPI_MCA_mpi_yield_when_idle=1"}};
    return setting;
}

const MpirunSetting& unbound() {
    static const MpirunSetting setting = {{"--bind-to", "none"}, {"OMPI_MCA_hwloc_base_binding_policy=none"}};
    return setting;
}

Words mpirun_command(const MpirunPlan& plan, const Words& program) {
    Words words = {"mpirun", "-n", std::to_string(plan.ranks)};
    if (!plan.hostfile.empty())
        append(words, {"--hostfile", plan.hostfile});
    else if (!plan.hosts.empty())
        append(words, {"--host", host_list(plan.hosts)});
    if (!plan.agent.empty()) append(words, {"--mca", "plm_rsh_agent", plan.agent});
    if (plan.watch_hosts)
        append(words, {"--mca", "oob_tcp_keepalive_time", "10", "--mca", "oob_tcp_keepalive_intvl", "5",
                       "--mca", "oob_tcp_keepalive_probes", "6"});
    if (const std::int64_t cores = cores_to_bind(plan); cores > 0) {
        append(words, {"--map-by", "slot:PE=" + std::to_string(cores), "--bind-to", "core"});
    } else {
        append(words, {"--map-by", "slot"});
        append(words, unbound().flags);
    }
    if (plan.ranks > slots(plan)) append(words, oversubscribed().flags);
    append(words, yielding().flags);
    if (plan.machine.root) append(words, as_root().flags);
    for (const std::string& name : plan.exported) append(words, {"-x", name});
    append(words, program);
    return words;
}

SrunPlan srun_plan(std::int64_t ranks, const Allocation& allocation) {
    SrunPlan plan;
    plan.ranks = ranks;
    plan.cpus_per_task = allocation.cpus_per_task;
    plan.overcommit =
        allocation.cpus > 0 && ranks * std::max<std::int64_t>(1, allocation.cpus_per_task) > allocation.cpus;
    plan.gpus = allocation.gpus_per_node > 0;
    return plan;
}

Words srun_command(const SrunPlan& plan, const Words& program) {
    Words words = {"srun", "--mpi=pmix", "--ntasks=" + std::to_string(plan.ranks)};
    if (plan.cpus_per_task > 0) words.push_back("--cpus-per-task=" + std::to_string(plan.cpus_per_task));
    append(words, {"--distribution=block:block", "--kill-on-bad-exit=1"});
    if (plan.overcommit) words.emplace_back("--overcommit");
    if (plan.gpus) words.emplace_back("--gpu-bind=none");
    append(words, program);
    return words;
}

Words variables_for_hosts(const Words& environment) {
    constexpr std::string_view prefixes[] = {"NCCL_", "UCX_", "CUDA_DEVICE_", "OMP_", "DNNL_", "ESCALIER_"};
    Words names;
    for (const std::string& entry : environment) {
        const std::string name = entry.substr(0, entry.find('='));
        if (std::any_of(std::begin(prefixes), std::end(prefixes),
                        [&](std::string_view prefix) { return name.starts_with(prefix); }))
            names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
}

}  // namespace escalier::launch
