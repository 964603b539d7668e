#include "train/training_data.h"

#include <spdlog/fmt/fmt.h>

namespace escalier::train {

std::string TrainingData::fingerprint() const {
    return fmt::format("{:016x}", train->fingerprint());
}

TrainingData open_data(const config::JobSpec& spec) {
    TrainingData out;
    out.corpus = std::make_shared<data::Corpus>(spec.data, spec.model.vocab_size);
    out.train = std::make_unique<data::Dataset>(out.corpus, spec.train.seq_len,
                                                static_cast<std::uint64_t>(spec.run.seed),
                                                spec.train.steps * spec.train.global_batch);
    if (spec.eval.every == 0) return out;
    out.validation = std::make_unique<data::EvalSet>(out.corpus, spec.train.seq_len,
                                                     spec.eval.batches * spec.train.global_batch);
    out.warning = out.validation->note();
    if (out.validation->size() == 0) {
        out.warning =
            "the validation split is empty (data.split: \"" + spec.data.split + "\"): no validation";
        out.validation.reset();
    }
    return out;
}

}  // namespace escalier::train
