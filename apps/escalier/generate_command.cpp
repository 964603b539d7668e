#include "generate_command.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "comm/mpi_env.h"
#include "number_options.h"
#include "train/generator.h"

namespace escalier::apps {

namespace {

constexpr int most_threads = 1024;

struct GenerateArguments {
    std::string weights;
    std::string prompt;
    std::int64_t tokens = 200;
    int threads = 0;
    train::SamplingOptions sampling;
};

int run(const GenerateArguments& arguments) {
    comm::MpiEnv env(nullptr, nullptr);
    if (env.world().size() != 1)
        throw ConfigError("generate runs in one process, and this is one of " +
                          std::to_string(env.world().size()) + ": start it without mpirun");
    const int threads = arguments.threads > 0 ? arguments.threads : env.place().allowed_cores;
    train::Generator generator(arguments.weights, env, threads);
    std::vector<std::int32_t> ids;
    generator.tokenizer().encode(arguments.prompt, ids);
    if (ids.empty()) {
        if (generator.tokenizer().eod() < 0)
            throw ConfigError(
                "--prompt is empty, and the tokenizer has no end-of-document token to start from");
        ids.push_back(generator.tokenizer().eod());  // what stands before a document
    }
    std::cout << arguments.prompt << std::flush;
    std::size_t printed = generator.tokenizer().decode(ids).size();
    // The whole text is decoded each time: a SentencePiece token's text depends on what stands before it.
    generator.generate(ids, arguments.tokens, arguments.sampling, [&](std::int32_t) {
        const std::string text = generator.tokenizer().decode(ids);
        std::cout << text.substr(std::min(printed, text.size())) << std::flush;
        printed = text.size();
    });
    std::cout << std::endl;
    return 0;
}

}  // namespace

void add_generate_command(CLI::App& app, std::function<int()>& action) {
    auto arguments = std::make_shared<GenerateArguments>();
    CLI::App* command =
        app.add_subcommand("generate", "Continue a text from weights that train --save-weights wrote");
    command->add_option("--weights", arguments->weights, "Weight file (safetensors)")->required();
    command->add_option("--prompt", arguments->prompt, "Text to continue");
    command->add_option("--tokens", arguments->tokens, "How many tokens to add")->check(whole_number(0));
    command->add_option("--temperature", arguments->sampling.temperature, "0: always the most probable token")
        ->check(number_not_negative())
        ->capture_default_str();
    command
        ->add_option("--top-k", arguments->sampling.top_k, "Choose among the k most probable tokens; 0: all")
        ->check(whole_number(0))
        ->capture_default_str();
    command->add_option("--seed", arguments->sampling.seed, "Seed of the draws")
        ->check(whole_number(0))
        ->capture_default_str();
    command->add_option("--threads", arguments->threads, "Compute threads; 0: all allowed cores")
        ->check(whole_number(0, most_threads));
    command->callback([arguments, &action] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace escalier::apps
