// The traces of all ranks as one file in the JSON format that Perfetto (ui.perfetto.dev) and chrome://tracing
// open.
//
// A process per rank, a track per stream; where messages overlap, as many tracks as it takes, so that slices
// of a track never do. An arrow leads from the slice of a message at its sender to that at its receiver.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/trace.h"

namespace escalier::report {

struct RankTrace {
    int rank = 0;
    int tp_rank = 0, pp_rank = 0, dp_rank = 0;
    std::string host;
    double clock_offset = 0;   // seconds to add to this rank's clock to read that of rank 0
    std::int64_t dropped = 0;  // spans for which there was no room
    std::vector<TraceSpan> spans;
};

// Times count from the earliest span, in microseconds. A message's slice begins with its send at the sender;
// at the receiver with the send or the posting of the receive, whichever came later.
std::string trace_json(const std::vector<RankTrace>& ranks);

}  // namespace escalier::report
