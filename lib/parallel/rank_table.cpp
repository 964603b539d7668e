#include "parallel/rank_table.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>

namespace escalier::parallel {

namespace {

struct Wire {
    char host[64] = "";
    int local_rank = 0;
    int cores = 1;
    int node_cores = 1;
    int threads = 1;
    char device[160] = "";
};

// "0, 7", long lists cut in the middle
std::string stages_text(const std::vector<int>& stages) {
    constexpr std::size_t shown = 6;
    std::string text;
    for (std::size_t i = 0; i < stages.size(); ++i) {
        if (stages.size() > shown && i == shown - 1) {
            text += " ...";
            i = stages.size() - 1;
        }
        text += (text.empty() ? "" : ", ") + std::to_string(stages[i]);
    }
    return text;
}

std::string padded(std::string text, std::size_t width) {
    return text.size() < width ? text + std::string(width - text.size(), ' ') : text;
}

std::string line_of(const RankRow& row, int host_width, std::size_t stages_width) {
    char text[256];
    std::snprintf(text, sizeof text, "%5d  %-*s  %5d  %5d  %7d  %3d  %3d  %3d  ", row.rank, host_width,
                  row.host.c_str(), row.local_rank, row.cores, row.threads, row.place.tp_rank,
                  row.place.pp_rank, row.place.dp_rank);
    if (row.device.empty()) return text + stages_text(row.stages);
    return text + padded(stages_text(row.stages), stages_width) + "  " + row.device;
}

std::string list(const std::set<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
    return text;
}

}  // namespace

std::string rank_table_text(const std::vector<RankRow>& rows) {
    constexpr std::size_t shown = 64, ends = 16;
    int host_width = 4;
    std::size_t stages_width = 6;
    bool devices = false;
    for (const RankRow& row : rows) {
        host_width = std::max(host_width, static_cast<int>(row.host.size()));
        stages_width = std::max(stages_width, stages_text(row.stages).size());
        devices = devices || !row.device.empty();
    }
    host_width = std::min(host_width, 64);
    char heading[256];
    std::snprintf(heading, sizeof heading, "%5s  %-*s  %5s  %5s  %7s  %3s  %3s  %3s  %s", "rank", host_width,
                  "host", "local", "cores", "threads", "tp", "pp", "dp",
                  devices ? padded("stages", stages_width).append("  device").c_str() : "stages");
    std::string text = heading;
    for (std::size_t r = 0; r < rows.size(); ++r) {
        if (rows.size() > shown && r == ends) {
            text += "\n  ... " + std::to_string(rows.size() - 2 * ends) + " more ranks";
            r = rows.size() - ends;
        }
        text.append("\n").append(line_of(rows[r], host_width, stages_width));
    }
    return text;
}

std::vector<std::string> rank_table_warnings(const std::vector<RankRow>& rows, const Grid& grid) {
    std::vector<std::string> warnings;
    for (std::size_t first = 0; first < rows.size(); first += static_cast<std::size_t>(grid.tp)) {
        std::set<std::string> hosts;
        for (std::size_t r = first; r < first + static_cast<std::size_t>(grid.tp); ++r)
            hosts.insert(rows[r].host);
        if (hosts.size() == 1) continue;
        warnings.push_back("the tensor group of ranks " + std::to_string(first) + " to " +
                           std::to_string(first + static_cast<std::size_t>(grid.tp) - 1) +
                           " spans the hosts " + list(hosts) +
                           ": its all-reduces of every layer cross the network. Place ranks by "
                           "node (mpirun --map-by core, srun --distribution=block) or lower parallel.tp.");
        break;  // one of them tells it
    }
    std::map<std::string, std::vector<const RankRow*>> by_host;
    for (const RankRow& row : rows) by_host[row.host].push_back(&row);
    for (const auto& [host, ranks] : by_host) {
        int threads = 0;
        const RankRow* crowded = nullptr;
        for (const RankRow* row : ranks) {
            threads += row->threads;
            if (row->threads > row->cores) crowded = row;
        }
        const bool single = threads == static_cast<int>(ranks.size());
        const std::string mend = single ? " They take turns: the run is slower, its results are the same."
                                        : " Lower run.threads, or allow more cores (mpirun --bind-to none).";
        if (threads > ranks[0]->node_cores)
            warnings.push_back("host " + host + ": its " + std::to_string(ranks.size()) + " ranks run " +
                               std::to_string(threads) + " compute threads on " +
                               std::to_string(ranks[0]->node_cores) + " allowed cores." + mend);
        else if (crowded)
            warnings.push_back("rank " + std::to_string(crowded->rank) + " on host " + host + " runs " +
                               std::to_string(crowded->threads) + " compute threads on " +
                               std::to_string(crowded->cores) + " allowed cores." + mend);
    }
    return warnings;
}

std::vector<int> stages_of_rank(const schedule::Schedule& schedule, int pp_rank) {
    std::vector<int> stages;
    for (int place = 0; place < schedule.places(); ++place)
        if (schedule.rank_of_place(place) == pp_rank) stages.push_back(place % schedule.stages());
    return stages;
}

RankTable gather_rank_table(comm::Communicator& job, const Grid& grid, const schedule::Schedule& schedule,
                            const comm::RankPlace& place, int threads, const std::string& device) {
    Wire own;
    std::strncpy(own.host, place.host.c_str(), sizeof own.host - 1);
    own.local_rank = place.local_rank;
    own.cores = place.allowed_cores;
    own.node_cores = place.node_cores;
    own.threads = threads;
    std::strncpy(own.device, device.c_str(), sizeof own.device - 1);
    std::vector<Wire> all(static_cast<std::size_t>(job.size()));
    const auto bytes = static_cast<std::int64_t>(sizeof(Wire));
    job.all_gather(TensorView(all.data(), DType::u8, Shape{bytes * job.size()}),
                   TensorView(&own, DType::u8, Shape{bytes}), "rank table");
    RankTable table;
    for (int rank = 0; rank < job.size(); ++rank) {
        const Wire& wire = all[static_cast<std::size_t>(rank)];
        const GridPlace at = grid.place_of(rank);
        table.rows.push_back({rank, at, stages_of_rank(schedule, at.pp_rank), wire.host, wire.local_rank,
                              wire.cores, wire.node_cores, wire.threads, wire.device});
    }
    table.text = rank_table_text(table.rows);
    table.warnings = rank_table_warnings(table.rows, grid);
    return table;
}

}  // namespace escalier::parallel
