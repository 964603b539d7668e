// The words of a schedule. All of this is pure data: no MPI, no device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace escalier::schedule {

enum class ActionKind : std::uint8_t {
    F,  // forward
    B,  // full backward: I then W
    I,  // input-gradient half
    W   // weight-gradient half
};

struct Action {
    ActionKind kind;
    int stage;
    int micro_batch;
    bool operator==(const Action&) const = default;
};

// "0F3": stage, kind, micro-batch; the cell format of PyTorch's pipelining CSVs.
std::string cell(const Action& action);

// Where stages live. stages = pp * chunks.
enum class Placement : std::uint8_t { loop, v };

// An ordered list of actions for every pipeline rank.
struct Schedule {
    std::string kind;
    int pp = 1;
    int chunks = 1;
    int micro_batches = 1;
    Placement placement = Placement::loop;
    std::vector<std::vector<Action>> ranks;

    int stages() const { return pp * chunks; }
    int rank_of(int stage) const;
    bool has_split_backward() const;  // any I or W
};

}  // namespace escalier::schedule
