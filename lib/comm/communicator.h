// A group of ranks that exchange tensors. Sums run in rank order whatever the size, so every rank gets the
// same bits and a result never depends on how a tensor was cut into messages.
//
// Every operation carries a label for the watchdog ("F of stage 1, micro-batch 3"); a wait that lasts longer
// than comm_timeout_s ends the job with a message that names who waited for what. Errors are CommError.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/tensor_view.h"

namespace escalier::comm {

// One sum over a group, made once and run once a step: start() and what follows allocate nothing.
// Buffers stay untouched from start() until done() or wait() said so; then start() may be called again.
class AllReduce {
 public:
    virtual ~AllReduce() = default;
    virtual void start() = 0;
    virtual bool done() = 0;                   // polls; true before the first start()
    virtual void wait(const char* label) = 0;  // until done
};

class Communicator {
 public:
    virtual ~Communicator() = default;
    virtual int rank() const = 0;
    virtual int size() const = 0;

    // Blocking collectives; every rank of the group calls them in the same order.
    virtual void all_reduce_sum(TensorView x,
                                const char* label) = 0;  // f32, f64 or bf16, in place, in rank order
    virtual void all_reduce_max(TensorView x, const char* label) = 0;  // f64 or i32
    virtual void all_gather(TensorView out, TensorView in,
                            const char* label) = 0;  // out: size() x in, by rank
    virtual void broadcast(TensorView x, int root, const char* label) = 0;
    virtual void barrier(const char* label) = 0;

    // A sum that runs in the background: in rank order, bit for bit that of all_reduce_sum. Progress is made
    // by done() and by comm's own progress thread. Every rank of the group makes and starts its operations in
    // the same order; several may be under way at once. scratch: all_reduce_scratch_elements(x.elements())
    // elements of x's dtype, untouched between start() and done.
    virtual std::unique_ptr<AllReduce> make_all_reduce(TensorView x, TensorView scratch) = 0;
    virtual std::int64_t all_reduce_scratch_elements(std::int64_t elements) const = 0;

    // Split by color (negative: not a member, returns null), ranks ordered by key.
    virtual std::unique_ptr<Communicator> split(int color, int key) = 0;
};

// One direction of one pipeline edge between two ranks, with a communicator of its own: messages arrive in
// the order they were sent. Requests are preallocated by `depth`, the largest number of messages under way at
// once.
class Channel {
 public:
    virtual ~Channel() = default;
    virtual int start_send(TensorView x) = 0;  // returns a ticket in [0, depth)
    virtual int start_receive(TensorView x) = 0;
    virtual bool done(int ticket) = 0;  // polls; a done ticket is free again
    virtual void wait(int ticket, const char* label) = 0;
};

}  // namespace escalier::comm
