// From a kind of schedule and a size to a schedule. A new kind is one function and one row of the table.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "schedule/action.h"
#include "schedule/memory.h"
#include "schedule/simulate.h"

namespace escalier::schedule {

enum class BackwardOrder : std::uint8_t { fifo, lifo };

// What `auto` fits a schedule to; the others need no costs.
struct StageCosts {
    Durations durations;                // per stage
    ActivationBytes bytes;              // per stage
    std::vector<double> memory_limits;  // per rank, in the unit of `bytes`; empty: no limit
};

struct GenerateOptions {
    std::string kind = "1f1b";
    int pp = 1;
    int chunks = 1;
    int micro_batches = 1;
    BackwardOrder backward = BackwardOrder::fifo;
    // interleaved and interleaved-zb: micro-batches per visit of a chunk. 0: M div P groups (at least one)
    // that are equal or differ by one, where M is micro_batches and P is pp.
    int group = 0;
    std::shared_ptr<const StageCosts> costs = nullptr;  // has_costs; null: equal stages, F = I = W, no limit
};

struct Kind {
    std::string_view name;
    std::string_view description;
    std::string_view constraint;  // on sizes, as users read it
    int default_chunks;
    bool exact;      // same losses and weights as 1f1b to the bit: weight gradients in micro-batch order
    bool has_lifo;   // also comes with the backward passes in reverse (never exact)
    bool has_group;  // takes a group size
    bool has_costs = false;  // is built for durations and memory limits
    int copies = 1;  // of the model; with two the pipeline has half the stages (Placement::bidirectional)
    // What is wrong with the sizes, and the nearest valid values; empty: nothing.
    std::string (*problem)(const GenerateOptions&);
    Schedule (*generate)(const GenerateOptions&);
};

std::span<const Kind> kinds();
// Null for a name that is not in the table.
const Kind* find_kind(std::string_view name);
// ConfigError, with the nearest one, for a name that is not in the table.
const Kind& require_kind(std::string_view name);
// The kind closest in spelling, for messages; empty when none is near.
std::string_view nearest_kind(std::string_view name);
// What is wrong with the sizes for this kind, with the nearest valid values; empty: nothing.
std::string size_problem(const Kind& kind, const GenerateOptions& options);
// "fifo" or "lifo"; ConfigError otherwise.
BackwardOrder parse_backward_order(std::string_view text);

// ConfigError for an unknown kind (with the nearest one) and for a size that the kind does not allow.
Schedule generate(const GenerateOptions& options);

// Only the forward actions of a schedule, in their order: for validation. lower() takes it, prove() does not.
Schedule forward_only(Schedule schedule);

}  // namespace escalier::schedule
