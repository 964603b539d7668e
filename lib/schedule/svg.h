// A schedule as a picture: standalone SVG without scripts and fonts of its own.
#pragma once

#include <string>
#include <vector>

#include "schedule/action.h"
#include "schedule/simulate.h"

namespace escalier::schedule {

// One row per pipeline rank, time to the right. Colours are kinds, shades are the chunks of a rank (or the
// copies of the model), numbers are micro-batches and stand where they fit; an overlapped pair is one box,
// its F above its B. Beside every row stand its idle share and the most activations alive on the rank, in
// units of one stage's for one micro-batch. `note` is a second caption line: where the times come from.
std::string to_svg(const Schedule& schedule, const Timeline& timeline, const std::string& note);

// Timelines of the same schedule, one above the other on one time scale.
struct Panel {
    std::string heading;
    Timeline timeline;
};
// unit: of the timelines, for captions and axes. At least one panel.
std::string to_svg(const Schedule& schedule, const std::vector<Panel>& panels, const std::string& unit,
                   const std::string& note);

}  // namespace escalier::schedule
