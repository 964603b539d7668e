// Schedules as CSV, in the cell format of PyTorch's pipelining schedules.
//
// One line per pipeline rank, no header. Cells:
//   0F3                     compute: stage, F, B, I or W, micro-batch
//   (0F3;3B5)OVERLAP_F_B    an overlapped pair
//   0SEND_F3 1RECV_F3       the activation of micro-batch 3 leaves stage 0, arrives at stage 1
//   1SEND_B3 0RECV_B3       the gradient leaves stage 1, arrives at stage 0
//   0UNSHARD 0RESHARD 0REDUCE_GRAD   what PyTorch does to a stage's parameters and gradients
#pragma once

#include <istream>
#include <string>

#include "schedule/action.h"

namespace escalier::schedule {

struct CsvOptions {
    bool overlap = false;        // pairs as pairs; otherwise F, then B
    bool communication = false;  // with SEND and RECV cells, each RECV where its sender runs (below)
};

// No idle cells. Communication cells stand in one global order, cut into ranks: a SEND follows its compute
// and its RECV is appended to the receiver's line at that moment, so even sends that block until they are
// received cannot deadlock. The schedule must be complete and free of circles (prove).
std::string to_csv(const Schedule& schedule, const CsvOptions& options = {});

// Reads what to_csv writes, and PyTorch's files of both formats. Empty (idle) cells, blank lines, CR LF, a
// byte order mark and quoted cells are allowed. Sizes and placement follow from the compute cells: stages in
// a loop, in a V, or, with as many stages as lines, two copies of which the second takes the second half of
// the micro-batches. Cells that compute nothing must be well-formed and on the line of their stage; they are
// then dropped, because lower() places communication and reductions itself.
//
// PyTorch once wrote BW for B and B for I. A file with BW cells, or with W cells and no I cell, which could
// be no schedule in today's names, is read so.
//
// The schedule is complete (check_complete). `name` (a path) stands in messages and becomes the schedule's
// kind. ConfigError with line and cell.
Schedule from_csv(std::istream& in, const std::string& name);

}  // namespace escalier::schedule
