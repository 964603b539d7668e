// A schedule lowered to what one pipeline rank executes, with every buffer and slot already assigned, so that
// the executor only walks a list. A rank holds `chunks` stages; "chunk" below is the index of a stage on its
// rank.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/action.h"

namespace escalier::schedule {

enum class InstructionKind : std::uint8_t {
    receive_activation,  // post the receive of F(stage - 1, mb)'s output into input buffer `buffer`
    receive_gradient,    // post the receive of the gradient of F(stage, mb)'s output into output-gradient
                         // buffer `buffer`
    compute,             // run `action`; waits first for the receives and free buffers it needs
    send_activation,     // start sending output buffer `buffer` to stage + 1
    send_gradient,       // start sending input-gradient buffer `buffer` to stage - 1
    reduce_gradients     // the stage's main gradients are complete: start the data-parallel reduction
};

// Indices into the buffer rings and slots of one stage; -1 where the action has no such thing (the first
// stage has no input buffer). A stage whose neighbour lives on the same rank shares the neighbour's buffer by
// copy.
struct Binding {
    int input = -1;                 // activation received: from its receive until I (or B) is done
    int output = -1;                // activation to send: from F until the send is complete
    int output_gradient = -1;       // gradient received: from its receive until W (or B) is done
    int input_gradient = -1;        // gradient to send: from I (or B) until the send is complete
    int forward_slot = -1;          // activations that only I needs: F to I
    int linear_input_slot = -1;     // inputs of linears, which W needs: F to W
    int output_gradient_slot = -1;  // gradients of linears' outputs: I to W; 0 for B, which uses them at once
};

struct Instruction {
    InstructionKind kind;
    Action action;  // for communication: the stage and micro-batch on this rank whose buffer it is
    int chunk;
    int buffer = -1;
    Binding binding;  // compute only
};

// How many of each a stage needs; the sizes of the arenas follow from these.
struct StageBuffers {
    int stage = 0;
    int inputs = 0;
    int outputs = 0;
    int output_gradients = 0;
    int input_gradients = 0;
    int forward_slots = 0;
    int linear_input_slots = 0;
    int output_gradient_slots = 0;
};

struct Program {
    int pp_rank = 0;
    std::vector<StageBuffers> chunks;
    std::vector<Instruction> instructions;
};

}  // namespace escalier::schedule
