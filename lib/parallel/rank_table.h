// Who runs where: one row per rank of the job, and what is doubtful about it.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/mpi_env.h"
#include "parallel/grid.h"
#include "schedule/action.h"

namespace escalier::parallel {

struct RankRow {
    int rank = 0;
    GridPlace place;
    std::vector<int> stages;  // by chunk
    std::string host;
    int local_rank = 0;
    int cores = 1;       // that this rank may use
    int node_cores = 1;  // that any rank of its host may use
    int threads = 1;     // compute threads
    std::string device;  // where it computes; empty: on those threads
};

struct RankTable {
    std::vector<RankRow> rows;  // by rank
    std::string text;           // one line per rank below a heading; long tables are cut in the middle
    std::vector<std::string> warnings;  // tensor groups that span hosts, more threads than cores
};

// Collective over `job`, whose ranks make up the grid; every rank gets the whole table. device: as in
// RankRow.
RankTable gather_rank_table(comm::Communicator& job, const Grid& grid, const schedule::Schedule& schedule,
                            const comm::RankPlace& place, int threads, const std::string& device = "");

// The stages of a pipeline rank, by chunk; with two copies of the model one of each.
std::vector<int> stages_of_rank(const schedule::Schedule& schedule, int pp_rank);

// The same without exchange.
std::string rank_table_text(const std::vector<RankRow>& rows);
std::vector<std::string> rank_table_warnings(const std::vector<RankRow>& rows, const Grid& grid);

}  // namespace escalier::parallel
