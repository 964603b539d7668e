// Tensors of GPUs through pinned host memory and MPI: slower than NCCL, but several ranks may share one GPU,
// which NCCL refuses.
//
// Copies are queued on the device and polled for, never waited for in CUDA; the host waits for messages
// alone. comm's progress thread carries messages forward while the main thread is elsewhere.
#pragma once

#include <memory>

#include "comm/mpi_env.h"
#include "comm/transport.h"
#include "device/cuda_device.h"

namespace escalier::comm {

// device outlives it. Longer blocking collectives go in parts of buffer_bytes.
std::unique_ptr<Transport> make_staged_transport(MpiEnv& env, device::CudaDevice& device,
                                                 std::int64_t buffer_bytes = std::int64_t{8} << 20);

}  // namespace escalier::comm
