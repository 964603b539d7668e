// The CUDA backend is a library of its own, libescalier_cuda.so, opened only when a run asks for it: the
// binary needs no CUDA to start, and pays nothing for it elsewhere. This is what the library offers, and how
// it is found.
#pragma once

#include <memory>
#include <string>

#include "comm/mpi_env.h"
#include "config/job_spec.h"
#include "train/backend.h"

namespace escalier::train {

// Written by whoever built the library; the binary refuses another one's.
#define ESCALIER_CUDA_INTERFACE "escalier " ESCALIER_VERSION

extern "C" {
// ESCALIER_CUDA_INTERFACE of the library.
using CudaInterface = const char*();
// Why this process can use no GPU; empty where it can. The first call, for it settles how CUDA starts.
using CudaProblem = void(std::string& problem, bool several_ranks);
// Collective over the world. All ranks throw alike: DeviceError (69) where ranks and GPUs do not fit.
using MakeCudaBackend = void(std::unique_ptr<Backend>& backend, const config::RunConfig& run,
                             comm::MpiEnv& env);
}

struct CudaPlugin {
    CudaProblem* problem = nullptr;
    MakeCudaBackend* make_backend = nullptr;
};

// The file: ESCALIER_CUDA_LIBRARY in the environment, else libescalier_cuda.so in the folder of the binary or
// in
// ../lib beside it. It stays open until the process ends. Throws DeviceError: no such file, what is missing
// to open it, another interface.
CudaPlugin open_cuda_plugin();

// What this process has of it, for people: what is missing, or cuda_usable.
inline constexpr const char* cuda_usable = "a GPU can be used";
std::string cuda_state();

// Whether to look for a GPU unasked: there is a driver, or the environment names a library.
bool worth_looking_for_cuda();

}  // namespace escalier::train
