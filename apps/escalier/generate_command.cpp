#include "generate_command.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/verify.h"
#include "collective.h"
#include "comm/broadcast_text.h"
#include "comm/mpi_env.h"
#include "config/fields.h"
#include "core/text.h"
#include "number_options.h"
#include "train/generator.h"
#include "train/model_source.h"
#include "train/prompt_tokenizer.h"
#include "train/text_stream.h"
#include "train/trainer.h"

namespace escalier::apps {

namespace {

constexpr int most_threads = 1024;
constexpr int most_ranks = 1 << 20;
constexpr std::int64_t most_tokens = std::int64_t{1} << 53;

struct GenerateArguments {
    std::string weights, checkpoint;
    std::string prompt;
    std::vector<std::int32_t> prompt_ids;
    std::string tokenizer;
    std::int64_t tokens = 200;
    std::int32_t stop_id = -1;
    std::int64_t context = 0;  // 0: what the model is made for
    std::int64_t tp = 1, pp = 1;
    std::string device = "cpu";
    int threads = 0;
    std::int64_t comm_timeout_s = config::RunConfig{}.comm_timeout_s;
    bool greedy = false;
    train::SamplingOptions sampling;
};

// A text under way: ids on all ranks, words on rank 0.
struct Text {
    std::vector<std::int32_t> ids;
    std::unique_ptr<data::Tokenizer> tokenizer;  // rank 0 of a prompt of words
};

void require_grid(const GenerateArguments& arguments, int ranks) {
    const std::int64_t needed = arguments.tp * arguments.pp;
    if (needed == ranks) return;
    throw ConfigError("generate on --tp " + std::to_string(arguments.tp) + " --pp " +
                      std::to_string(arguments.pp) + " needs " + std::to_string(needed) +
                      (needed == 1 ? " process" : " processes") + ", got " + std::to_string(ranks) +
                      "; start it with mpirun -n " + std::to_string(needed) +
                      ", or give --tp and --pp whose product is " + std::to_string(ranks));
}

// Rank 0 chooses, so that all ranks read the same checkpoint while a run saves more of them.
train::ModelSource open_model(const GenerateArguments& arguments, comm::MpiEnv& env) {
    train::ModelSource source;
    if (!arguments.weights.empty()) {
        env.agree([&] { source = train::open_weight_file(arguments.weights); });
        return source;
    }
    train::FoundCheckpoint found;
    env.agree([&] {
        if (env.world().rank() == 0) found = train::find_checkpoint(arguments.checkpoint);
    });
    if (!found.note.empty()) std::cerr << "note: " << found.note << std::endl;
    comm::broadcast_text(found.directory, env.world(), "choice of the checkpoint");
    env.agree([&] { source = train::open_checkpoint(found.directory); });
    env.activity().begin(comm::Doing::loading_checkpoint);
    checkpoint::verify_model(*source.snapshot, env);
    return source;
}

// Of a table of positions, a run from initial weights has trained those of its samples alone.
bool trained_all_positions(const train::ModelSource& source) {
    return source.about.model.arch == config::Arch::llama ||
           (source.snapshot && !source.snapshot->assets_directory().empty());  // an import
}

// How many tokens of the text a pass may see.
std::int64_t context_of(const GenerateArguments& arguments, const train::ModelSource& source) {
    const std::int64_t positions = source.about.model.max_positions;  // 0: rotary, and not said
    if (positions > 0 && arguments.context > positions)
        throw ConfigError("--context: found " + std::to_string(arguments.context) + ", but " + source.path +
                          " is of a model with " + std::to_string(positions) +
                          " positions (model.max_positions); give at most so many");
    if (arguments.context > 0) return arguments.context;
    return positions > 0 && trained_all_positions(source) ? positions : source.about.seq_len;
}

// What of a text is not seen, on rank 0.
void note_unseen(const train::ModelSource& source, std::int64_t context, const std::string& text) {
    const std::int64_t positions = source.about.model.max_positions;
    std::cerr << "note: " << text << " the context of " << grouped(context) << " tokens, and only the last "
              << grouped(context) << " are seen"
              << (positions == 0        ? "; --context N sees more"
                  : context < positions ? "; --context N sees up to " + grouped(positions)
                                        : std::string(", which are all the positions of the model"))
              << std::endl;
}

// Rank 0's text as ids.
void encode_prompt(const GenerateArguments& arguments, const train::ModelSource& source, Text& text) {
    train::PromptTokenizer opened = train::open_prompt_tokenizer(source, arguments.tokenizer);
    if (!opened.note.empty()) std::cerr << "note: " << opened.note << std::endl;
    text.tokenizer = std::move(opened.tokenizer);
    if (opened.begin >= 0) text.ids.push_back(opened.begin);
    text.tokenizer->encode(arguments.prompt, text.ids);
    if (text.ids.empty()) {
        if (text.tokenizer->eod() < 0)
            throw ConfigError(
                "--prompt is empty, and the tokenizer has no end-of-document token to start from");
        text.ids.push_back(text.tokenizer->eod());  // what stands before a document
    }
    for (const std::int32_t id : text.ids)
        if (id >= source.about.model.vocab_size)
            throw ConfigError("--prompt: the tokenizer gives id " + std::to_string(id) + ", but " +
                              source.path + " is of a model with a vocabulary of " +
                              std::to_string(source.about.model.vocab_size) +
                              "; name the model's tokenizer with --tokenizer, or give --prompt-ids");
}

void require_ids(const GenerateArguments& arguments, const train::ModelSource& source) {
    const std::int64_t vocabulary = source.about.model.vocab_size;
    const auto require = [&](std::int32_t id, const char* flag) {
        if (id >= vocabulary)
            throw ConfigError(std::string(flag) + ": found id " + std::to_string(id) + ", but " +
                              source.path + " is of a model with a vocabulary of " +
                              std::to_string(vocabulary) + ": ids go from 0 to " +
                              std::to_string(vocabulary - 1));
    };
    for (const std::int32_t id : arguments.prompt_ids) require(id, "--prompt-ids");
    require(arguments.stop_id, "--stop-id");
}

// Collective. What goes on from where the prompt ends: its ids, which ids may follow and which one ends it.
Text begin_text(const GenerateArguments& arguments, const train::ModelSource& source, comm::MpiEnv& env,
                train::GenerateOptions& options) {
    Text text;
    text.ids = arguments.prompt_ids;
    env.agree([&] {
        require_ids(arguments, source);
        if (arguments.prompt_ids.empty() && env.world().rank() == 0) encode_prompt(arguments, source, text);
    });
    options.stop_id = arguments.stop_id;
    if (text.tokenizer) {
        options.choices = std::min(text.tokenizer->vocab_size(), source.about.model.vocab_size);
        if (options.stop_id < 0) options.stop_id = text.tokenizer->eod();
        if (options.choices < source.about.model.vocab_size)
            std::cerr << "note: the tokenizer has " << options.choices << " of the model's "
                      << source.about.model.vocab_size << " ids; the others are never drawn" << std::endl;
    }
    std::int64_t facts[3] = {static_cast<std::int64_t>(text.ids.size()), options.choices, options.stop_id};
    env.world().broadcast(TensorView(facts, DType::u64, {3}), 0, "facts of the prompt");
    text.ids.resize(static_cast<std::size_t>(facts[0]));
    options.choices = facts[1];
    options.stop_id = static_cast<std::int32_t>(facts[2]);
    env.world().broadcast(TensorView(text.ids.data(), DType::i32, {facts[0]}), 0, "ids of the prompt");
    return text;
}

// On rank 0, as the tokens come.
void print_text(const GenerateArguments& arguments, Text& text, train::Inference& inference,
                const train::GenerateOptions& options) {
    const bool speaks = inference.job().rank() == 0;
    std::optional<train::TextStream> stream;
    if (text.tokenizer) stream.emplace(*text.tokenizer);
    if (stream) std::cout << stream->begin(text.ids, arguments.prompt) << std::flush;
    for (std::size_t i = 0; speaks && !stream && i < text.ids.size(); ++i)
        std::cout << (i ? "," : "") << text.ids[i];
    train::generate(inference, text.ids, options, [&](std::int32_t id) {
        if (stream)
            std::cout << stream->add(text.ids) << std::flush;
        else if (speaks)
            std::cout << ',' << id << std::flush;
    });
    if (stream) std::cout << stream->finish(text.ids);
    if (speaks) std::cout << std::endl;
}

int run(const GenerateArguments& arguments) {
    if (arguments.weights.empty() == arguments.checkpoint.empty())
        throw ConfigError(
            "generate needs a model: give --ckpt, a run folder or one of its step folders, or "
            "--weights, a file of train --save-weights");
    comm::MpiEnv env(nullptr, nullptr);
    return run_collective(env, [&] {
        env.start_watchdog(static_cast<double>(arguments.comm_timeout_s), "--comm-timeout-s");
        env.agree([&] { require_grid(arguments, env.world().size()); });
        const train::ModelSource source = open_model(arguments, env);
        train::GenerateOptions options;
        options.tokens = arguments.tokens;
        options.sampling = arguments.sampling;
        if (arguments.greedy) options.sampling.temperature = 0;
        Text text = begin_text(arguments, source, env, options);
        std::int64_t context = 0;
        env.agree([&] { context = context_of(arguments, source); });
        const auto prompt = static_cast<std::int64_t>(text.ids.size());
        const bool notes = env.world().rank() == 0 && options.tokens > 0;
        if (notes && prompt > context)
            note_unseen(source, context, "the prompt of " + grouped(prompt) + " tokens is longer than");
        config::RunConfig run_config;
        if (arguments.threads > 0) run_config.threads = arguments.threads;
        train::Inference inference(
            source.about.model,
            {arguments.tp, arguments.pp, train::generation_window(prompt, options.tokens, context),
             arguments.device, train::compute_threads(run_config, env.place())},
            env, env.world());
        inference.load(source.weights());
        print_text(arguments, text, inference, options);
        const auto length = static_cast<std::int64_t>(text.ids.size());
        const std::int64_t seen =
            length == prompt + options.tokens ? length - 1 : length;  // by the last pass
        if (notes && prompt <= context && seen > context)
            note_unseen(source, context, "the text grew to " + grouped(length) + " tokens, beyond");
        return 0;
    });
}

void add_text_options(CLI::App& command, GenerateArguments& arguments) {
    CLI::Option* prompt = command.add_option(
        "--prompt", arguments.prompt, "Text to continue; empty: begin as at the beginning of a document");
    command
        .add_option("--prompt-ids", arguments.prompt_ids,
                    "Token ids to continue, 1,2,3: prints ids, needs no tokenizer")
        ->delimiter(',')
        ->check(whole_number(0, std::numeric_limits<std::int32_t>::max()))
        ->excludes(prompt);
    command.add_option("--tokens", arguments.tokens, "At most so many tokens are added")
        ->check(whole_number(0, most_tokens))
        ->capture_default_str();
    command
        .add_option(
            "--context", arguments.context,
            "At most so many tokens of the text are seen at once, which bounds the memory; default: as "
            "many as the model has positions")
        ->check(whole_number(1, config::most_sequence));
    command
        .add_option("--stop-id", arguments.stop_id,
                    "This id ends the text; default: the tokenizer's end of document")
        ->check(whole_number(0, std::numeric_limits<std::int32_t>::max()));
    command.add_option("--tokenizer", arguments.tokenizer,
                       "byte or sp:PATH, in place of what the model was trained or imported with");
}

void add_sampling_options(CLI::App& command, GenerateArguments& arguments) {
    train::SamplingOptions& sampling = arguments.sampling;
    CLI::Option* temperature = command
                                   .add_option("--temperature", sampling.temperature,
                                               "Logits are divided by it; 0: always the most probable token")
                                   ->check(number_not_negative())
                                   ->capture_default_str();
    CLI::Option* top_k =
        command.add_option("--top-k", sampling.top_k, "Choose among the k most probable tokens; 0: all")
            ->check(whole_number(0))
            ->capture_default_str();
    CLI::Option* top_p =
        command
            .add_option("--top-p", sampling.top_p,
                        "Choose among the fewest most probable tokens that together have this share of the "
                        "probability, after --temperature and --top-k; 1: all")
            ->check(share())
            ->capture_default_str();
    command.add_flag("--greedy", arguments.greedy, "The same as --temperature 0")
        ->excludes(temperature)
        ->excludes(top_k)
        ->excludes(top_p);
    command.add_option("--seed", sampling.seed, "Seed of the draws")
        ->check(whole_number(0))
        ->capture_default_str();
}

}  // namespace

void add_generate_command(CLI::App& app, std::function<int()>& action) {
    auto arguments = std::make_shared<GenerateArguments>();
    CLI::App* command = app.add_subcommand(
        "generate", "Continue a text; on several ranks too: mpirun -n 4 escalier generate … --tp 2 --pp 2");
    CLI::Option* checkpoint = command->add_option(
        "--ckpt", arguments->checkpoint, "Run folder (its newest checkpoint) or one of its step folders");
    command->add_option("--weights", arguments->weights, "File of train --save-weights (safetensors)")
        ->excludes(checkpoint);
    add_text_options(*command, *arguments);
    add_sampling_options(*command, *arguments);
    command->add_option("--tp", arguments->tp, "Tensor ranks")
        ->check(whole_number(1, most_ranks))
        ->capture_default_str();
    command->add_option("--pp", arguments->pp, "Pipeline ranks")
        ->check(whole_number(1, most_ranks))
        ->capture_default_str();
    command->add_option("--device", arguments->device, "cpu, cuda or auto, as run.device; fp32 on either")
        ->check(CLI::IsMember({"cpu", "cuda", "auto"}))
        ->capture_default_str();
    command
        ->add_option("--threads", arguments->threads, "Compute threads of a rank; 0: its share of the cores")
        ->check(whole_number(0, most_threads));
    command
        ->add_option("--comm-timeout-s", arguments->comm_timeout_s,
                     "Seconds without an answer from a rank until the job is ended")
        ->check(whole_number(1, 86400))
        ->capture_default_str();
    command->callback([arguments, &action] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace escalier::apps
