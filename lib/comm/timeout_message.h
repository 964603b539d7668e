// The last words of a job whose ranks wait in vain: which rank holds up the others, and who waits for whom.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/activity.h"

namespace escalier::comm {

// World ranks first, first + stride, …; count 0: all of them.
struct RankSet {
    int first = 0;
    int stride = 1;
    int count = 0;

    static RankSet one(int rank) { return {rank, 1, 1}; }
    bool contains(int rank) const;
    bool operator==(const RankSet&) const = default;
};

// What one rank tells the others. Sent as bytes.
struct RankReport {
    double waiting_s = -1;    // seconds of the present wait; negative: not waiting
    std::uint64_t moves = 0;  // waits that are over, and pieces that came within one
    RankSet awaited;       // by the present or else the last wait; one other rank, or a group it is part of
    char label[108] = "";  // what it waits for
    char host[64] = "";
    ActivityReport activity;  // what it is in the middle of
};

struct SeenReport {
    RankReport report;
    double seen_s = -1;          // seconds since it came; negative: never
    bool knows_present = false;  // its activity is that of now, though the rest may be old
};

// Whether one of the others does not answer.
bool some_rank_is_silent(int rank, const std::vector<SeenReport>& seen, double silent_after_s);

// Whether one of the others is not waiting.
bool some_rank_works(int rank, const std::vector<SeenReport>& seen, double silent_after_s);

// The rank to which the waits lead from `rank`: one that is silent, or that does not wait. -1: there is none,
// all wait for one another. seen: of all ranks.
int root_of_wait(int rank, const std::vector<SeenReport>& seen, double silent_after_s);

// The message of a rank that waited too long, at most 8 lines: the root of its wait first. seen: of all
// ranks, the own one fresh. setting: what the user sets the timeout with.
std::string timeout_message(int rank, double timeout_s, const std::vector<SeenReport>& seen,
                            double silent_after_s, const std::string& setting = "run.comm_timeout_s");

}  // namespace escalier::comm
