// What a run reads samples from.
#pragma once

#include <memory>
#include <string>

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

}  // namespace escalier::train
