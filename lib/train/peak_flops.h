// What a device can do at most, the denominator of MFU.
#pragma once

#include <string>

#include "config/job_spec.h"

namespace escalier::train {

// FLOP/s of one device: log.peak_tflops where it is given, else the dense bf16 figure of the data sheet for a
// GPU of a known name (never the sparse one); 0 where none is known, as for fp32 and CPUs.
double peak_flops(const config::JobSpec& spec, const std::string& device_description);

}  // namespace escalier::train
