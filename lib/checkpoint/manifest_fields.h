// What writer and reader of manifest.json have to spell alike.
#pragma once

#include "checkpoint/manifest.h"

namespace escalier::checkpoint {

inline constexpr const char* manifest_format = "escalier-checkpoint";
inline constexpr int manifest_version = 1;

// What is wrong with how the pieces of each tensor lie, as the end of a sentence; empty: each element is
// there once, and moments for all tensors or none.
std::string coverage_fault(const Manifest& manifest);

}  // namespace escalier::checkpoint
