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
    // The first of an overlapped pair: this action and the next one of its rank, of another chunk, run
    // interleaved (DualPipe's F of one micro-batch with B of another).
    bool overlaps_next = false;
    bool operator==(const Action&) const = default;
};

// What a backward action does; B does both halves.
constexpr bool is_input_half(ActionKind kind) {
    return kind == ActionKind::I || kind == ActionKind::B;
}
constexpr bool is_weight_half(ActionKind kind) {
    return kind == ActionKind::W || kind == ActionKind::B;
}

// "0F3": stage, kind, micro-batch; the cell format of PyTorch's pipelining CSVs.
std::string cell(const Action& action);

// Where stages live; S = number of stages, P = pipeline ranks.
enum class Placement : std::uint8_t {
    loop,          // stage s on rank s mod P
    v,             // 0 1 ... P-1, then back: P-1 ... 1 0, and so on
    bidirectional  // two copies of the model, S = P: stage s of copy 0 on rank s, of copy 1 on rank P-1-s
};

// An ordered list of actions for every pipeline rank.
struct Schedule {
    std::string kind;
    int pp = 1;
    int chunks = 1;
    int micro_batches = 1;
    Placement placement = Placement::loop;
    std::vector<std::vector<Action>> ranks;

    int copies() const { return placement == Placement::bidirectional ? 2 : 1; }
    int stages() const { return pp * chunks / copies(); }
    // Copy 1 works on the second half of the micro-batches.
    int copy_of(int micro_batch) const { return copies() == 2 && micro_batch >= micro_batches / 2 ? 1 : 0; }
    int rank_of(int stage, int copy = 0) const;
    int rank_of(const Action& action) const { return rank_of(action.stage, copy_of(action.micro_batch)); }
    // A stage of a copy: copy * stages() + stage. With one copy a place is a stage.
    int places() const { return copies() * stages(); }
    int place_of(const Action& action) const { return copy_of(action.micro_batch) * stages() + action.stage; }
    int rank_of_place(int place) const { return rank_of(place % stages(), place / stages()); }

    bool has_split_backward() const;  // any I or W
    bool has_overlaps() const;        // any overlapped pair
};

// The same order without overlapped pairs.
Schedule flattened(Schedule schedule);

}  // namespace escalier::schedule
