// check, print-config, schema and generate's options as main() runs them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/escalier/check_command.h"
#include "apps/escalier/generate_command.h"
#include "apps/escalier/print_config_command.h"
#include "apps/escalier/schema_command.h"
#include "config_test_support.h"
#include "tests/harness/temp_folder.h"

namespace escalier::config {
namespace {

using namespace testing;

class Commands : public ::testing::Test {
 protected:
    // Writes the job and runs "COMMAND JOB arguments…"; what it printed.
    std::string run(const std::string& command, const std::string& job,
                    std::vector<std::string> arguments = {}) {
        std::ofstream(path_) << job;
        CLI::App app;
        std::function<int()> action;
        apps::add_check_command(app, action);
        apps::add_print_config_command(app, action);
        apps::add_schema_command(app, action);
        if (command != "schema") arguments.insert(arguments.begin(), path_);
        arguments.insert(arguments.begin(), command);
        std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
        app.parse(arguments);
        std::ostringstream out;
        std::streambuf* const standard = std::cout.rdbuf(out.rdbuf());
        int code = -1;
        try {
            code = action();
        } catch (...) {
            std::cout.rdbuf(standard);
            throw;
        }
        std::cout.rdbuf(standard);
        EXPECT_EQ(code, 0);
        return out.str();
    }

    const test::TempFolder folder_;
    const std::string path_ = folder_ / "job.yaml";
};

TEST_F(Commands, CheckShowsGridStagesAndBatch) {
    const std::string out =
        run("check", "model: {preset: gpt2-124m}\nparallel: {tp: 2, pp: 4}\n",
            {"--ranks", "16", "--set", "train.global_batch=64", "--set", "train.micro_batch=4"});
    for (const std::string part : {"tp 2 x pp 4 x dp 2", "parameters 124,439,808\n",
                                   "global_batch 64 = micro_batch 4 x micro_batches 8 x dp 2",
                                   "tokens     16,384 per step", "embedding, layers 0-2", "layer 11, head"})
        EXPECT_TRUE(contains(out, part)) << part << "\n" << out;
}

TEST_F(Commands, StagesSumToTheModel) {
    const std::string out = run("check", "model: {preset: small, tie_embeddings: false}\n",
                                {"-n", "3", "--set", "parallel.pp=3"});
    std::istringstream lines_of(out);
    std::int64_t sum = 0;
    int stages = 0;
    double shares = 0.0;
    for (std::string line; std::getline(lines_of, line);) {
        if (line.rfind("    ", 0) != 0) continue;
        std::string digits, word, last;
        std::istringstream words(line);
        while (words >> word) {
            if (word == "%") shares += std::stod(last);
            if (word.find(',') != std::string::npos && std::isdigit(static_cast<unsigned char>(word[0])) &&
                word.size() > 5)
                digits = word;
            last = word;
        }
        digits.erase(std::remove(digits.begin(), digits.end(), ','), digits.end());
        sum += std::stoll(digits);
        ++stages;
    }
    EXPECT_EQ(stages, 3) << out;
    EXPECT_EQ(sum, 30339456 + 50257 * 384) << out;
    EXPECT_NEAR(shares, 100.0, 0.2) << out;
}

TEST_F(Commands, CheckNeedsNoDataAndSaysEveryFault) {
    EXPECT_TRUE(contains(run("check", "model: {preset: tiny}\n", {"--ranks", "1"}), "parameters 282,048"));
    const std::string said = message_of([&] {
        run("check", "model: {preset: tiny}\nparallel: {pp: 9}\nlrr: 1\n", {"--ranks", "2"});
    });
    EXPECT_TRUE(contains(said, "3 errors in the job spec")) << said;
}

TEST_F(Commands, CheckPrintsLargeCountsWhole) {
    const std::string out = run("check",
                                "model: {preset: tiny, arch: llama, ffn_size: 96, max_positions: auto}\n"
                                "train: {steps: 67108863, seq_len: 16777216, global_batch: 8192}\n",
                                {"-n", "1"});
    EXPECT_TRUE(contains(out, "9,223,371,899,415,822,336 in 67,108,863 steps")) << out;
}

TEST_F(Commands, PrintConfigReadsBackAndTakesItsOwnGrid) {
    const std::string job = "model: {preset: tiny}\nparallel: {pp: 2}\nrun: {name: mine}\n";
    const std::string out = run("print-config", job);
    EXPECT_TRUE(contains(out, "  layout: [2, 2]\n")) << out;
    EXPECT_EQ(run("print-config", out), out);
    EXPECT_TRUE(contains(run("print-config", job, {"--ranks", "6"}), "  dp: 3\n"));
    EXPECT_TRUE(contains(run("print-config", job, {"--origin"}), "# derived from balanced\n"));
    EXPECT_TRUE(
        contains(message_of([&] { run("print-config", "model: {preset: tiny}\nparallel: {pp: two}\n"); }),
                 "found two"));
}

TEST_F(Commands, RanksArePlainDecimal) {
    for (const std::string command : {"check", "print-config"}) {
        const auto said = [&](const std::string& ranks) -> std::string {
            try {
                return run(command, "model: {preset: tiny}\n", {"--ranks", ranks});
            } catch (const CLI::ValidationError& error) {
                return error.what();
            }
        };
        EXPECT_EQ(said("010"),
                  "--ranks: found 010, wanted a whole number from 1 to 1048576 (a leading zero would mean "
                  "octal; write 10)");
        EXPECT_EQ(said("0"), "--ranks: found 0, wanted a whole number from 1 to 1048576");
        EXPECT_EQ(said("-1"), "--ranks: found -1, wanted a whole number from 1 to 1048576");
        EXPECT_EQ(said("two"), "--ranks: found two, wanted a whole number from 1 to 1048576");
    }
}

TEST(GenerateCommand, RefusesNumbersInWords) {
    const auto said = [](const std::string& flag, const std::string& value) -> std::string {
        CLI::App app;
        std::function<int()> action;
        apps::add_generate_command(app, action);
        try {
            app.parse(std::vector<std::string>{value, flag, "x", "--weights", "generate"});
        } catch (const CLI::ValidationError& error) {
            return error.what();
        }
        return "accepted";
    };
    for (const std::string value : {"nan", "inf", "-1", "1e999", "hot", "-nan"})
        EXPECT_EQ(said("--temperature", value),
                  "--temperature: found " + value + ", wanted a number of at least 0");
    for (const std::string value : {"0", "0.8", "1e3"}) EXPECT_EQ(said("--temperature", value), "accepted");
    EXPECT_EQ(said("--threads", "1024"), "accepted");
    EXPECT_EQ(said("--threads", "1025"), "--threads: found 1025, wanted a whole number from 0 to 1024");
    EXPECT_EQ(said("--tokens", "-5"), "--tokens: found -5, wanted a whole number from 0 to 9007199254740992");
    EXPECT_EQ(said("--top-k", "1.5"), "--top-k: found 1.5, wanted a whole number of at least 0");
    EXPECT_EQ(said("--seed", "07"),
              "--seed: found 07, wanted a whole number of at least 0 (a leading zero would mean octal; write "
              "7)");
}

TEST_F(Commands, SchemaIsJson) {
    EXPECT_EQ(nlohmann::json::parse(run("schema", ""))["title"], "Escalier job spec");
    EXPECT_TRUE(contains(run("schema", "", {"--text"}), "parallel.tp"));
}

}  // namespace
}  // namespace escalier::config
