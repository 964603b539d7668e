// A schedule lowered to what one pipeline rank executes, with every buffer and slot already assigned, so that
// the executor only walks a list. A rank holds `chunks` stages (of one copy of the model or two); "chunk"
// below is the index of a stage on its rank, by place (action.h).
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/action.h"

namespace escalier::schedule {

enum class InstructionKind : std::uint8_t {
    receive_activation,  // post the receive of F(stage - 1, mb)'s output into input buffer `buffer`
    receive_gradient,    // post the receive of the gradient of F(stage, mb)'s output into output-gradient
                         // buffer `buffer`
    compute,             // run `action`; waits first for the receives and free buffers it needs. With
              // action.overlaps_next the next instruction is the pair's other compute; the two start
              // when both can and run interleaved
    send_activation,  // start sending output buffer `buffer` to stage + 1
    send_gradient,    // start sending input-gradient buffer `buffer` to stage - 1
    reduce_gradients  // the stage's main gradients are complete: start the data-parallel reduction
};

// Indices into the buffer rings and slots of one stage; -1 where the action has no such thing (the first
// stage has no input buffer).
//
// Neighbouring stages on one rank (V placement's turn, pp = 1 with several chunks) exchange no message: the
// producer writes straight into the consumer's buffer. Then `output_is_next_input` is set and `output` is an
// index into the input ring of chunk StageBuffers::next_chunk; likewise `input_gradient_is_previous` and the
// output-gradient ring of chunk previous_chunk. No send or receive instruction stands for them.
struct Binding {
    int input = -1;                 // activation received: from its receive until I (or B) is done
    int output = -1;                // activation to send: from F until the send is complete
    int output_gradient = -1;       // gradient received: from its receive until W (or B) is done
    int input_gradient = -1;        // gradient to send: from I (or B) until the send is complete
    int forward_slot = -1;          // activations that only I needs: F to I
    int linear_input_slot = -1;     // inputs of linears, which W needs: F to W
    int output_gradient_slot = -1;  // gradients of linears' outputs: I to W; B needs it only meanwhile
    bool output_is_next_input = false;
    bool input_gradient_is_previous = false;
};

struct Instruction {
    InstructionKind kind;
    Action action;  // for communication: the action on this rank that fills or uses the buffer
    int chunk;
    int buffer = -1;
    Binding binding;  // compute only
};

// How many of each a stage needs; the sizes of the arenas follow from these. A ring that another stage's
// ring stands in for (see Binding) has size 0.
struct StageBuffers {
    int stage = 0;
    int inputs = 0;
    int outputs = 0;
    int output_gradients = 0;
    int input_gradients = 0;
    int forward_slots = 0;
    int linear_input_slots = 0;
    int output_gradient_slots = 0;
    int next_chunk = -1;      // chunk of stage + 1 when it lives on this rank
    int previous_chunk = -1;  // chunk of stage - 1 when it lives on this rank
    int copy = 0;             // of the model
};

struct Program {
    int pp_rank = 0;
    std::vector<StageBuffers> chunks;
    std::vector<Instruction> instructions;
};

}  // namespace escalier::schedule
