// What a run reads samples from.
#pragma once

#include <memory>
#include <string>

#include "comm/mpi_env.h"
#include "config/job_spec.h"
#include "data/sampler.h"

namespace escalier::train {

struct TrainingData {
    std::shared_ptr<const data::Corpus> corpus;
    std::unique_ptr<data::Dataset> train;
    std::unique_ptr<data::EvalSet> validation;  // null: no validation
    std::string warning;                        // about the validation set; may be empty

    std::string fingerprint() const;  // of the training samples and their order: 16 hex digits
};

// Opens and checks all of data.*. Throws ConfigError, IoError or DataError.
TrainingData open_data(const config::JobSpec& spec);

// Refuses ranks whose files are not those of rank 0 (copies of another age on another node), for inputs and
// targets of one sample would then be of two: all throw an AgreedError (65) that names rank and hosts.
// Collective.
void require_same_data(const TrainingData& data, comm::MpiEnv& env);

}  // namespace escalier::train
