#include "plan_memory.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdio>

#include "core/text.h"
#include "parallel/rank_table.h"
#include "text_table.h"
#include "train/largest_micro_batch.h"
#include "train/memory_report.h"
#include "train/rank_model.h"
#include "train/stage_facts.h"

namespace escalier::apps {

namespace {

constexpr std::size_t most_rows = 48, end_rows = 16;  // longer tables are cut in the middle

std::string mib(std::int64_t bytes) {
    return fmt::format("{:.1f}", static_cast<double>(bytes) / (1 << 20));
}

std::string gib(std::int64_t bytes) {
    return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1 << 30));
}

std::string joined(const std::vector<std::string>& parts) {
    std::string text;
    for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
    return text;
}

std::vector<int> stages_of(const train::PlannedJob& job, const train::RankMemory& rank) {
    return parallel::stages_of_rank(job.programs().schedule, rank.place.pp_rank);
}

std::int64_t first_layer(const config::JobSpec& spec, int stage) {
    std::int64_t first = 0;
    for (int s = 0; s < stage; ++s) first += spec.pipeline.layers_per_stage[static_cast<std::size_t>(s)];
    return first;
}

// "embedding, 0-3", "28-31, head"
std::string layers_text(const config::JobSpec& spec, int stage) {
    const std::int64_t first = first_layer(spec, stage);
    const std::int64_t layers = spec.pipeline.layers_per_stage[static_cast<std::size_t>(stage)];
    std::string text = layers == 1 ? std::to_string(first) : fmt::format("{}-{}", first, first + layers - 1);
    if (stage == 0) text = "embedding, " + text;
    if (stage + 1 == static_cast<int>(spec.pipeline.layers_per_stage.size())) text += ", head";
    return text;
}

std::int64_t parameters_of(const train::PlannedJob& job, const train::RankMemory& rank) {
    std::int64_t count = 0;
    for (const int stage : stages_of(job, rank))
        count += train::stage_parameters(job.spec(), job.programs().schedule, stage);
    return count;
}

int live_of(const train::PlannedJob& job, const train::RankMemory& rank) {
    return job.programs().proof.peak_until_weight[static_cast<std::size_t>(rank.place.pp_rank)];
}

// Slots of activations from F to I, over the stages of a rank.
int forward_slots(const train::PlannedJob& job, const train::RankMemory& rank) {
    const schedule::Program& program = job.programs().program(rank.place.pp_rank);
    const std::vector<int> groups = train::slot_groups(job.spec(), program);
    int slots = 0;
    for (std::size_t chunk = 0; chunk < groups.size(); ++chunk)
        if (groups[chunk] == static_cast<int>(chunk)) slots += program.chunks[chunk].forward_slots;
    return slots;
}

Row heading(const std::vector<train::RankMemory>& ranks, const std::vector<bool>& shown) {
    Row row = {"pp rank", "rank", "stages", "layers", "parameters", "live", "slots"};
    for (std::size_t arena = 0; arena < shown.size(); ++arena)
        if (shown[arena]) row.push_back(ranks[0].arenas[arena].name);
    for (const char* name : {"arenas", "outside", "total", ""}) row.emplace_back(name);
    return row;
}

Row row_of(const train::PlannedJob& job, const PlannedMemory& memory, const train::RankMemory& rank,
           const std::vector<bool>& shown) {
    std::vector<std::string> stages, layers;
    for (const int stage : stages_of(job, rank)) {
        stages.push_back(std::to_string(stage));
        layers.push_back(layers_text(job.spec(), stage));
    }
    Row row = {std::to_string(rank.place.pp_rank),
               std::to_string(rank.rank),
               joined(stages),
               joined(layers),
               grouped(parameters_of(job, rank)),
               std::to_string(live_of(job, rank)),
               std::to_string(forward_slots(job, rank))};
    for (std::size_t arena = 0; arena < shown.size(); ++arena)
        if (shown[arena]) row.push_back(mib(static_cast<std::int64_t>(rank.arenas[arena].bytes)));
    row.push_back(mib(rank.arena_bytes()));
    row.push_back(mib(rank.gpu ? rank.outside_device : rank.outside_host));
    row.push_back(mib(rank.total()));
    row.emplace_back(memory.fits(rank) ? "" : "does not fit");
    return row;
}

// "0-3, 7"
std::string ranges(const std::vector<int>& numbers) {
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        std::size_t end = i;
        while (end + 1 < numbers.size() && numbers[end + 1] == numbers[end] + 1) ++end;
        parts.push_back(std::to_string(numbers[i]));
        if (end > i) parts.back() += "-" + std::to_string(numbers[end]);
        i = end;
    }
    return joined(parts);
}

std::string verdict(const PlannedMemory& memory) {
    if (!memory.limit) return "How much memory a rank has nobody said; --memory GiB does.\n";
    std::vector<int> full;
    const train::RankMemory* fullest = &memory.ranks[0];
    for (const train::RankMemory& rank : memory.ranks) {
        if (rank.total() > fullest->total()) fullest = &rank;
        if (!memory.fits(rank) && (full.empty() || full.back() != rank.place.pp_rank))
            full.push_back(rank.place.pp_rank);
    }
    if (full.empty())
        return fmt::format("fits into {} a rank ({})\n", gib(memory.limit->bytes), memory.limit->source);
    return fmt::format("does not fit on pipeline rank{} {}: rank {}, the fullest, takes {} of {} ({})\n",
                       full.size() == 1 ? "" : "s", ranges(full), fullest->rank, gib(fullest->total()),
                       gib(memory.limit->bytes), memory.limit->source);
}

std::string micro_batch_line(const config::JobSpec& spec, const PlannedMemory& memory) {
    if (!memory.limit) return "";
    const std::string held =
        fmt::format("global_batch {} and dp {} as they are", spec.train.global_batch, spec.parallel.dp);
    if (!memory.largest_micro_batch) return fmt::format("no micro-batch fits, with {}\n", held);
    return fmt::format("largest micro-batch that fits: {} (here {}), with {}\n", *memory.largest_micro_batch,
                       spec.train.micro_batch, held);
}

}  // namespace

bool PlannedMemory::fits() const {
    return std::all_of(ranks.begin(), ranks.end(), [&](const auto& rank) { return fits(rank); });
}

PlannedMemory plan_memory(const train::PlannedJob& job, const std::optional<MemoryLimit>& limit,
                          bool all_ranks) {
    PlannedMemory memory{all_ranks ? job.all_ranks() : job.fullest_ranks(), limit, std::nullopt};
    if (limit)
        memory.largest_micro_batch = train::largest_micro_batch(job.spec(), job.machine(), limit->bytes);
    return memory;
}

std::string memory_page(const train::PlannedJob& job, const PlannedMemory& memory) {
    const config::JobSpec& spec = job.spec();
    const std::vector<train::RankMemory>& ranks = memory.ranks;
    std::vector<bool> shown;
    for (std::size_t arena = 0; arena < ranks[0].arenas.size(); ++arena)
        shown.push_back(std::any_of(ranks.begin(), ranks.end(),
                                    [&](const auto& rank) { return rank.arenas[arena].bytes > 0; }));
    std::vector<Row> rows = {heading(ranks, shown)};
    for (std::size_t r = 0; r < ranks.size(); ++r) {
        if (ranks.size() > most_rows && r == end_rows) {
            Row gap(rows[0].size());
            gap[0] = "...";
            rows.push_back(gap);
            r = ranks.size() - end_rows;
        }
        rows.push_back(row_of(job, memory, ranks[r], shown));
    }
    std::string text = fmt::format(
        "memory     MiB a rank, {}, {}; arenas to the byte as train takes them, outside estimated\n",
        spec.run.device, spec.train.dtype);
    text += text_table(rows);
    if (ranks[0].gpu) {
        std::int64_t most = 0;
        for (const train::RankMemory& rank : ranks) most = std::max(most, rank.host_bytes());
        text += fmt::format(
            "That is the GPU's memory, but the arenas host and staging; a rank takes {} of its host's at "
            "most.\n",
            gib(most));
    }
    return text + verdict(memory) + micro_batch_line(spec, memory);
}

nlohmann::ordered_json memory_json(const train::PlannedJob& job, const PlannedMemory& memory) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const train::RankMemory& rank : memory.ranks) {
        rows.push_back({{"pp_rank", rank.place.pp_rank},
                        {"rank", rank.rank},
                        {"tp_rank", rank.place.tp_rank},
                        {"dp_rank", rank.place.dp_rank},
                        {"stages", stages_of(job, rank)},
                        {"parameters", parameters_of(job, rank)},
                        {"live_micro_batches", live_of(job, rank)},
                        {"forward_slots", forward_slots(job, rank)},
                        {"arenas", train::arenas_json(rank.arenas)},
                        {"arena_bytes", rank.arena_bytes()},
                        {"outside_host_bytes", rank.outside_host},
                        {"outside_device_bytes", rank.outside_device},
                        {"host_bytes", rank.host_bytes()},
                        {"device_bytes", rank.gpu ? rank.device_bytes() : 0},
                        {"total_bytes", rank.total()},
                        {"fits", memory.limit ? nlohmann::ordered_json(memory.fits(rank)) : nullptr}});
    }
    nlohmann::ordered_json object = {{"ranks", rows}};
    object["limit_bytes"] = memory.limit ? nlohmann::ordered_json(memory.limit->bytes) : nullptr;
    object["fits"] = memory.limit ? nlohmann::ordered_json(memory.fits()) : nullptr;
    object["largest_micro_batch"] =
        memory.largest_micro_batch ? nlohmann::ordered_json(*memory.largest_micro_batch) : nullptr;
    return object;
}

}  // namespace escalier::apps
