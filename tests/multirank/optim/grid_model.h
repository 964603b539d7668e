// The parameters of a small model, laid out over a grid by the real registry, without the rest of training.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "config/job_spec.h"
#include "device/device.h"
#include "kernels/ops.h"
#include "model/parameter.h"
#include "parallel/groups.h"

namespace escalier::multirank {

// Four layers, four heads. "gpt2": tied. "llama 1 kv head", "llama 2 kv heads": untied, with query and key
// norms.
config::ModelConfig small_model(const std::string& name);

// Grids of `ranks` ranks whose extents are powers of two.
std::vector<parallel::Grid> grids_of(int ranks);

class GridModel {
 public:
    // Collective over `job`. Weights are initial ones, gradients zero.
    GridModel(const config::ModelConfig& config, const parallel::Grid& grid, comm::Communicator& job,
              std::uint64_t seed = 1234);

    // This rank's part of a gradient that equals the weight once all parts are summed (the tied weight twice,
    // by embedding and head).
    void set_gradient_parts();

    ComputePool pool{1};
    std::vector<char> scratch = std::vector<char>(1 << 16);
    OpContext context{pool, scratch.data(), scratch.size()};
    std::unique_ptr<device::Device> device = device::make_cpu_device();
    parallel::Groups groups;
    model::ParameterList parameters;
    int global_entries = 0;
    device::Arenas arenas;  // last: building it fills the list

 private:
    void build(const config::ModelConfig& config, device::Arenas& target);
};

}  // namespace escalier::multirank
