// Leaves out the waits for events that one place in the program asks for, so that a test can see whether
// anybody would notice. A place is the caller of cudaStreamWaitEvent, as an offset within its library:
// "1f2a0".
//
//   ESCALIER_CUDA_LIST_WAITS=FILE    every place that waits is added to FILE, one a line, when it first does
//   ESCALIER_CUDA_DROP_WAIT=PLACE    that place's waits are left out
#pragma once

namespace escalier::cuda_emulation {

// Whether the wait under way is to be left out. Called by cudaStreamWaitEvent itself.
bool wait_is_dropped();

}  // namespace escalier::cuda_emulation
