// Where a CUDA op queues its work: core/op_context.h hands it on without knowing what is inside.
#pragma once

#include <cuda_runtime_api.h>

namespace escalier::kernels::cuda {
class Matmul;
}

namespace escalier {

struct DeviceQueue {
    cudaStream_t stream = nullptr;
    int multiprocessors = 0;                  // of the device: grids are cut to it
    bool deterministic = true;                // results are the same bits run to run
    kernels::cuda::Matmul* matmul = nullptr;  // matrix products by cuBLASLt
};

}  // namespace escalier
