// print_logits CHECKPOINT ID...: the logits behind a text of token ids, one a line. For scripts/hf_check.
#include <cstdio>
#include <string>
#include <vector>

#include "checkpoint/reader.h"
#include "comm/mpi_env.h"
#include "core/error.h"
#include "train/inference.h"
#include "train/model_source.h"

int main(int argc, char** argv) {
    using namespace escalier;
    try {
        if (argc < 3) throw ConfigError("usage: print_logits CHECKPOINT ID...");
        std::vector<std::int32_t> ids;
        for (int i = 2; i < argc; ++i) ids.push_back(std::stoi(argv[i]));
        comm::MpiEnv env(nullptr, nullptr);
        const train::ModelSource source = train::open_checkpoint(train::find_checkpoint(argv[1]).directory);
        train::Inference inference(source.about.model,
                                   {1, 1, static_cast<std::int64_t>(ids.size()), "cpu", 1}, env, env.world());
        inference.load(source.weights());
        for (const float logit : inference.next_logits(ids))
            std::printf("%.9g\n", static_cast<double>(logit));
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "print_logits: %s\n", error.what());
        return 1;
    }
}
