#include "train/generator.h"

#include <algorithm>

namespace escalier::train {

std::int64_t generation_window(std::int64_t prompt, std::int64_t tokens, std::int64_t longest) {
    const std::int64_t needed = std::max<std::int64_t>(1, prompt) + std::max<std::int64_t>(0, tokens - 1);
    std::int64_t window = 1;
    while (window < needed && window < longest) window *= 2;
    return std::min(window, longest);
}

void generate(Inference& inference, std::vector<std::int32_t>& ids, const GenerateOptions& options,
              const std::function<void(std::int32_t)>& on_token) {
    comm::Communicator& job = inference.job();
    const int root = inference.logits_rank();
    for (std::int64_t i = 0; i < options.tokens; ++i) {
        std::span<const float> logits = inference.next_logits(ids);
        std::int32_t token = 0;
        inference.env().agree([&] {
            if (job.rank() != root) return;
            if (options.choices > 0)
                logits = logits.first(std::min(logits.size(), static_cast<std::size_t>(options.choices)));
            token = sample_token(logits, options.sampling, static_cast<std::int64_t>(ids.size()));
        });
        job.broadcast(TensorView(&token, DType::i32, {1}), root, "the next token");
        if (token == options.stop_id) return;
        ids.push_back(token);
        on_token(token);
    }
}

}  // namespace escalier::train
