// All-reduce of one tensor after the other, as a state machine that any number of short calls carry forward.
// Two ways: through memory that the ranks of one node share, or by MPI messages. Both combine every element
// in rank order, so they give the same bits, whatever the sizes of their pieces.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>

#include "comm/backoff.h"
#include "comm/combine.h"
#include "core/tensor_view.h"

namespace escalier::comm {

class ReduceLane {
 public:
    virtual ~ReduceLane() = default;
    // scratch: scratch_elements() elements of x's type. The operation before this one is done.
    virtual void begin(TensorView x, Combine combine, TensorView scratch) = 0;
    virtual Polled advance() = 0;
    virtual std::int64_t scratch_elements(std::int64_t elements) const = 0;
    virtual std::int64_t largest_scratch() const = 0;  // elements, over all sizes
};

// Collective over `comm`; null on all ranks where they share no memory. slot_bytes: what a rank lays open at
// once, twice over; a multiple of 64. Best where two slots of all ranks stay in the cache.
std::unique_ptr<ReduceLane> make_shared_lane(MPI_Comm comm, std::int64_t slot_bytes);

// Messages with tags from first_tag to first_tag + 3. chunk_elements: of a piece that is under way at once,
// at most 2^31 - 1; two pieces overlap.
std::unique_ptr<ReduceLane> make_message_lane(MPI_Comm comm, int first_tag, std::int64_t chunk_elements);

}  // namespace escalier::comm
