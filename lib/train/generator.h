// Continues a text, token by token, on all ranks of a grid.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "train/inference.h"
#include "train/sampling.h"

namespace escalier::train {

struct GenerateOptions {
    std::int64_t tokens = 0;    // at most so many are added
    std::int32_t stop_id = -1;  // this one ends the text and does not become part of it; -1: none
    std::int64_t choices = 0;   // only ids below it are drawn: those the tokenizer has; 0: all
    SamplingOptions sampling;
};

// How many tokens a forward pass must compute with to continue a prompt: what the text needs, up to
// `longest`. Rounded up where that is less, to a power of two or, beyond 1024, to a multiple of that, so that
// texts of about the same length come from the very same computation.
std::int64_t generation_window(std::int64_t prompt, std::int64_t tokens, std::int64_t longest);

// Appends tokens to `ids`, each reported as it comes. Collective: everything is the same on all ranks, the
// draws are made on one. Throws an AgreedError (NumericError's code) for logits that are not finite.
void generate(Inference& inference, std::vector<std::int32_t>& ids, const GenerateOptions& options,
              const std::function<void(std::int32_t)>& on_token);

}  // namespace escalier::train
