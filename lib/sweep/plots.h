// Pictures of a sweep: throughput and bubble over micro-batches.
#pragma once

#include <string>
#include <vector>

#include "sweep/table.h"

namespace escalier::sweep {

struct Plot {
    std::string file;  // "bubble.svg"
    std::string svg;
};

// One line per number of stages, and per combination of what else the points differ in; in `bubble` the
// theory, (P - 1) / (M + P - 1), is dashed. Of points that are done; nothing where there are none.
std::vector<Plot> plots(const Sweep& sweep, const std::vector<Row>& rows);

}  // namespace escalier::sweep
