#include "train/generator.h"

#include <algorithm>
#include <bit>

namespace escalier::train {

std::int64_t generation_window(std::int64_t prompt, std::int64_t tokens, std::int64_t longest) {
    const std::int64_t needed = std::max<std::int64_t>(1, prompt) + std::max<std::int64_t>(0, tokens - 1);
    constexpr std::int64_t step = 1024;
    if (needed > step) return std::min((std::min(needed, longest) + step - 1) / step * step, longest);
    return std::min(static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(needed))), longest);
}

void generate(Inference& inference, std::vector<std::int32_t>& ids, const GenerateOptions& options,
              const std::function<void(std::int32_t)>& on_token) {
    comm::Communicator& job = inference.job();
    const int root = inference.logits_rank();
    for (std::int64_t i = 0; i < options.tokens; ++i) {
        std::span<const float> logits = inference.next_logits(ids);
        inference.env().activity().begin(comm::Doing::drawing, 0, static_cast<int>(ids.size()));
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
