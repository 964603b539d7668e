// What the parts of a model take on given hardware, by a roofline over their ops.
#pragma once

#include "config/job_spec.h"
#include "config/profile.h"
#include "plan/hardware.h"

namespace escalier::plan {

// How ranks are placed: tp fastest, then dp, pp slowest; a node holds hardware.node.gpus of them.
struct GridSizes {
    std::int64_t tp = 1, pp = 1, dp = 1;
};

// Seconds of a sum of `bytes` over `ranks` by a ring; of one message; a group that spans nodes has their
// link.
double all_reduce_seconds(double bytes, std::int64_t ranks, const Hardware::Link& link, double efficiency);
double message_seconds(double bytes, const Hardware::Link& link, double efficiency);

const Hardware::Link& tensor_link(const Hardware& hardware, const GridSizes& grid);
const Hardware::Link& data_link(const Hardware& hardware, const GridSizes& grid);
const Hardware::Link& pipeline_link(const Hardware& hardware, const GridSizes& grid);

// dtype: "fp32" or "bf16". The sums over replicas are priced with a ring over the grid's dp.
config::ModelTimes roofline_times(const config::ModelConfig& model, std::int64_t micro_batch,
                                  std::int64_t seq_len, const std::string& dtype, const GridSizes& grid,
                                  const Hardware& hardware);
config::ModelTimes roofline_times(const config::JobSpec& spec, const Hardware& hardware);

// "bf16" or "fp32"; auto is what the device takes: fp32 where bf16 is no faster.
std::string planned_dtype(const config::JobSpec& spec, const Hardware& hardware);

}  // namespace escalier::plan
