// The tensors of a model as Hugging Face files hold them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/tensor_source.h"
#include "config/job_spec.h"

namespace escalier::checkpoint {

// Shapes by name: vocabulary unpadded, a tied head not among them. model: resolved.
std::map<std::string, std::vector<std::int64_t>> model_tensors(const config::ModelConfig& model);

std::string embedding_table_name(config::Arch arch);
inline constexpr const char* head_name = "lm_head.weight";

// Throws DataError, naming source and tensor, unless `source` has exactly the model's tensors, of types that
// weights are read from.
void check_is_model(const TensorSource& source, const config::ModelConfig& model);

}  // namespace escalier::checkpoint
