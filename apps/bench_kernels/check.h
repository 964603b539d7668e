// Every kernel of a backend against its CPU twin.
#pragma once

#include <string>

#include "core/compute_pool.h"
#include "kernel_case.h"
#include "train/backend.h"

namespace escalier::bench {

// Runs every case whose name contains `only` once on the backend and once on the CPU, on the same numbers,
// and prints one line each: the largest relative distance |out - twin| / |twin| (2-norms) among its outputs.
// The CPU computes in fp32 whatever the storage. Returns how many cases are farther apart than their storage
// explains, or put out something that is not finite.
int check_kernels(const CaseSettings& settings, train::Backend& backend, ComputePool& pool,
                  const std::string& only);

}  // namespace escalier::bench
