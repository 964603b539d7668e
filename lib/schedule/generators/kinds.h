// The generators behind the table of generators.h: one function per kind, and what is wrong with a size that
// a kind does not take (empty: nothing). A generator may rely on its problem function having said nothing.
#pragma once

#include <string>

#include "schedule/generators.h"

namespace escalier::schedule::generators {

// Of the sizes in `options`, without actions.
Schedule empty_schedule(const GenerateOptions& options, Placement placement);

std::string one_chunk_problem(const GenerateOptions& options);
std::string two_chunks_problem(const GenerateOptions& options);
std::string bfs_problem(const GenerateOptions& options);
std::string interleaved_problem(const GenerateOptions& options);
std::string interleaved_zb_problem(const GenerateOptions& options);
std::string dualpipe_problem(const GenerateOptions& options);
std::string auto_problem(const GenerateOptions& options);

Schedule gpipe(const GenerateOptions& options);
Schedule one_forward_one_backward(const GenerateOptions& options);
Schedule interleaved(const GenerateOptions& options);
Schedule bfs(const GenerateOptions& options);
Schedule zb_h1(const GenerateOptions& options);
Schedule zb_h2(const GenerateOptions& options);
Schedule interleaved_zb(const GenerateOptions& options);
Schedule zbv(const GenerateOptions& options);
Schedule dualpipe(const GenerateOptions& options);
Schedule dualpipev(const GenerateOptions& options);

// Most activations alive per rank (from F to W, in units of one stage's): at most P + 2 and 2P/3 + 8/3, where
// 1f1b has 2P. At F = I = W their idle share is near a half and two thirds of 1f1b's for M >= 4P.
Schedule v_half(const GenerateOptions& options);
Schedule v_min(const GenerateOptions& options);

// For options.costs the fastest that the simulator finds among the fixed kinds and its own, within the memory
// limits. ConfigError when a rank's limit is below what one micro-batch needs.
Schedule auto_schedule(const GenerateOptions& options);

}  // namespace escalier::schedule::generators
