// The one door from a kernel (.cu) to the device: everything that is not plain C++ comes from here.
//
// Under nvcc this is CUDA itself. Under g++ it is the emulation in tests/cuda_emulation, which runs the same
// source on CPUs; so a kernel uses no inline PTX, no `extern __shared__`, no <<<>>>, no cooperative groups.
#pragma once

#include "kernels/common/cuda_launch.h"
#include "kernels/common/cuda_mma.h"
#include "kernels/common/cuda_reduce.h"
#include "kernels/common/cuda_vector.h"
