#include "launch/allocation.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "core/error.h"

namespace escalier::launch {

namespace {

// The number that `text` starts with, which is cut off; 0 if there is none.
std::int64_t take_number(std::string_view& text) {
    std::int64_t value = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem != std::errc{} || value < 0) return 0;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return value;
}

// "8(x2),4" -> 20
std::int64_t sum_over_nodes(std::string_view text) {
    std::int64_t sum = 0;
    while (!text.empty()) {
        const std::int64_t cpus = take_number(text);
        std::int64_t nodes = 1;
        if (text.starts_with("(x")) {
            text.remove_prefix(2);
            nodes = take_number(text);
            if (!text.starts_with(")")) return 0;
            text.remove_prefix(1);
        }
        if (cpus <= 0 || nodes <= 0 || cpus > 1'000'000 || nodes > 1'000'000) return 0;
        sum += cpus * nodes;
        if (text.empty()) return sum;
        if (!text.starts_with(",")) return 0;
        text.remove_prefix(1);
    }
    return sum;
}

}  // namespace

std::optional<Allocation> slurm_allocation(const config::Environment& environment) {
    const auto number = [&](const char* name) {
        const std::optional<std::string> value = environment(name);
        std::string_view text = value ? std::string_view(*value) : std::string_view();
        return take_number(text);
    };
    if (!environment("SLURM_JOB_ID")) return std::nullopt;
    if (const std::int64_t copies = number("SLURM_STEP_NUM_TASKS"); copies > 1)
        throw ConfigError("srun started " + std::to_string(copies) +
                          " copies of this launch (SLURM_STEP_NUM_TASKS); start it once, without srun: it "
                          "starts the ranks itself");
    Allocation allocation;
    allocation.nodes = std::max<std::int64_t>(1, number("SLURM_JOB_NUM_NODES"));
    allocation.cpus = sum_over_nodes(environment("SLURM_JOB_CPUS_PER_NODE").value_or(""));
    allocation.tasks = number("SLURM_NTASKS");
    allocation.cpus_per_task = number("SLURM_CPUS_PER_TASK");
    allocation.gpus_per_node = number("SLURM_GPUS_ON_NODE");
    return allocation;
}

std::int64_t task_places(const Allocation& allocation) {
    if (allocation.tasks > 0) return allocation.tasks;
    return allocation.cpus / std::max<std::int64_t>(1, allocation.cpus_per_task);
}

bool offers_pmix(const std::string& list) {
    for (std::size_t at = 0; (at = list.find("pmix", at)) != std::string::npos; ++at)
        if (at == 0 || list[at - 1] == ' ' || list[at - 1] == '\t' || list[at - 1] == '\n') return true;
    return false;
}

}  // namespace escalier::launch
