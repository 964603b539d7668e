// The forward pass of a model on a tensor x pipeline grid, for one text at a time: the stages, channels and
// executor of training with a program of forward actions. fp32.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "checkpoint/tensor_source.h"
#include "comm/mpi_env.h"
#include "config/job_spec.h"

namespace escalier::train {

struct InferenceOptions {
    std::int64_t tp = 1, pp = 1;
    std::int64_t window = 0;     // tokens that a pass computes with; what stands before them is not seen
    std::string device = "cpu";  // as run.device
    int threads = 1;             // compute threads of this rank
};

class Inference {
 public:
    // model: resolved. Collective over `job`, which has tp * pp ranks (and agrees with the world). Throws on
    // all ranks alike: ConfigError where the model does not go on the grid, DeviceError. All weights are 0
    // until load().
    Inference(const config::ModelConfig& model, const InferenceOptions& options, comm::MpiEnv& env,
              comm::Communicator& job);
    ~Inference();

    // Collective. Every rank reads its own slices only. Throws an AgreedError, as load_weights().
    void load(const checkpoint::TensorSource& weights);

    // Logits of the token that follows `ids`, of which there is at least one: the last `window` count. The
    // ids are the same on all ranks. Collective; the vocabulary's logits on the ranks of the last stage, else
    // nothing.
    std::span<const float> next_logits(std::span<const std::int32_t> ids);
    int logits_rank() const;  // a rank of the job that has them
    comm::Communicator& job() const;
    comm::MpiEnv& env() const;

 private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace escalier::train
