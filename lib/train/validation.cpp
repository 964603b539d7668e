#include "train/validation.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "core/clock.h"

namespace escalier::train {

std::string Validation::fault(std::int64_t step) const {
    return fmt::format(
        "the validation loss after step {} is {}, though all weights are finite: look at validation "
        "samples {} to {}",
        step, loss, first, last);
}

Validation validate(TrainStep& step, const data::EvalSet& samples, std::int64_t global_batch) {
    const double start = now_seconds();
    Validation found;
    double sum = 0;
    for (std::int64_t batch = 0; batch < samples.batches(global_batch); ++batch) {
        const std::int64_t first = batch * global_batch;
        std::int64_t valid = 0;
        const bool sound = std::isfinite(sum);
        sum += step.validate(samples, first, valid);
        found.targets += valid;
        if (!sound || std::isfinite(sum)) continue;
        found.first = first;
        found.last = std::min(first + global_batch, samples.size()) - 1;
    }
    found.loss = sum / static_cast<double>(found.targets);
    found.seconds = now_seconds() - start;
    return found;
}

}  // namespace escalier::train
