// How a gradient op meets what its output already holds. `overwrite` stands for the first micro-batch of a
// step: it saves the sweep that would zero the accumulator, and gives the bits of adding to zero.
#pragma once

namespace escalier::kernels {

enum class Accumulate : bool { overwrite = false, add = true };

}  // namespace escalier::kernels
