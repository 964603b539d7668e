// Tensors of GPUs over NCCL: a communicator and, for what is not blocking, a stream for every group and
// channel.
#pragma once

#include <memory>

#include "comm/mpi_env.h"
#include "comm/transport.h"
#include "device/cuda_device.h"
#include "kernels/elementwise.h"

namespace escalier::comm {

// device outlives it. rank_order: see nccl_sum.h; longer blocking sums go in parts of what scratch_bytes of
// device memory hold. Every rank has a GPU of its own: NCCL refuses to
// have two of them on one.
std::unique_ptr<Transport> make_nccl_transport(MpiEnv& env, device::CudaDevice& device,
                                               kernels::SumParts& sum_parts, bool rank_order,
                                               std::int64_t scratch_bytes = std::int64_t{32} << 20);

}  // namespace escalier::comm
