// Errors of the CUDA runtime as exceptions. Host code only.
#pragma once

#include <cuda_runtime_api.h>

#include <source_location>
#include <string>

#include "core/error.h"

namespace escalier::kernels::cuda {

// Throws DeviceError: what was tried, CUDA's name, number and text of the error, file:line.
inline void check_cuda(cudaError_t code, const char* what,
                       std::source_location where = std::source_location::current()) {
    if (code == cudaSuccess) return;
    throw DeviceError(std::string(what) + " failed: " + cudaGetErrorName(code) + " (" +
                      std::to_string(static_cast<int>(code)) + "): " + cudaGetErrorString(code) + ", at " +
                      where.file_name() + ":" + std::to_string(where.line()));
}

}  // namespace escalier::kernels::cuda
