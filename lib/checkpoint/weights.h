// Weights of the whole model in one safetensors file under Hugging Face names, whatever the grid: fp32,
// shapes as Hugging Face stores them, vocabulary padding trimmed, a tied weight once. The bytes of the file
// do not depend on the grid.
#pragma once

#include <string>

#include "checkpoint/safetensors.h"
#include "checkpoint/tensor_source.h"
#include "device/device.h"
#include "model/parameter.h"
#include "parallel/groups.h"

namespace escalier::checkpoint {

// Metadata key of the model's description, from which a reader rebuilds the model.
inline constexpr const char* model_metadata_key = "escalier_model";

// Collective over all ranks of the grid. Rank 0 writes, and holds one whole tensor at a time. Throws IoError
// (write), or what else stops it, on rank 0 alone, after all ranks are through, so the caller must let ranks
// agree.
void save_weights(const std::string& path, const model::ParameterList& parameters,
                  const parallel::Groups& groups, device::Device& device, const Metadata& metadata);

// Whether `source` holds the tensors of this very model: throws DataError, alike on the ranks of the group,
// that names the first one that is missing, of another shape or without a place in the model. Collective.
void check_model(const TensorSource& source, const model::ParameterList& parameters,
                 comm::Communicator& model_group);

// Fills every weight of this rank, replicas and tied copies included; padding rows stay as they are.
// Collective over groups.model. Throws, maybe on some ranks only, so the caller must let ranks agree:
// what check_model throws, and DataError where damage shows.
void load_weights(const TensorSource& source, const model::ParameterList& parameters,
                  const parallel::Groups& groups, device::Device& device);

}  // namespace escalier::checkpoint
