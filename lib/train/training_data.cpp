#include "train/training_data.h"

#include <spdlog/fmt/fmt.h>

#include "comm/broadcast_text.h"
#include "core/error.h"

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
    if (out.validation->size() == 0) out.validation.reset();
    return out;
}

void require_same_data(const TrainingData& data, comm::MpiEnv& env) {
    const std::string here = data.fingerprint();  // covers the files that are validated on, too
    std::string first = here, first_host = env.place().host;
    comm::broadcast_text(first, env.world(), "the fingerprint of the data");
    comm::broadcast_text(first_host, env.world(), "rank 0's host");
    env.agree([&] {
        if (here != first)
            throw DataError(fmt::format(
                "data.train: the files of rank {} on {} are not those of rank 0 on {} (fingerprint {}, there "
                "{}). Put the same files on every node.",
                env.world().rank(), env.place().host, first_host, here, first));
    });
}

}  // namespace escalier::train
