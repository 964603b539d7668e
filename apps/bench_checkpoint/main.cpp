// Measures what a checkpoint costs and prints one JSON object: how long the step loop stands still, the time
// until it is durable, bytes per second beside those of dd with fsync on the same disk at the same time, and
// the most memory that a save adds. Started by mpirun with tp * pp * dp processes; scripts/bench_checkpoint
// rotates configurations.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/saver.h"
#include "config/validate.h"
#include "core/clock.h"
#include "train/assembly.h"
#include "train/schedule_rules.h"

namespace escalier {
namespace {

struct Arguments {
    std::string model = "gpt2-124m", directory = "/tmp/bench_checkpoint";
    std::int64_t tp = 1, pp = 1, dp = 1, repeats = 5;
    bool async = false;
};

config::JobSpec make_spec(const Arguments& a, int ranks) {
    const std::string yaml = "version: 1\nmodel: {preset: " + a.model + "}\n";
    return config::load_resolved(
               {"bench", yaml},
               {"run.device=cpu", "parallel.tp=" + std::to_string(a.tp),
                "parallel.pp=" + std::to_string(a.pp), "parallel.dp=" + std::to_string(a.dp),
                "train.seq_len=16", "train.micro_batch=1",
                "train.global_batch=" + std::to_string(a.dp * a.pp), "train.steps=1000", "checkpoint.every=1",
                "checkpoint.keep_last=1", std::string("checkpoint.async=") + (a.async ? "true" : "false")},
               ranks, config::process_environment(), train::schedule_rules())
        .spec;
}

// A line of /proc/self/status, in bytes.
double memory(const std::string& name) {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with(name + ":")) return 1024.0 * std::atof(line.c_str() + name.size() + 1);
    return 0;
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

class Bench {
 public:
    Bench(const Arguments& arguments, comm::MpiEnv& env)
        : arguments_(arguments),
          world_(env.world()),
          assembly_(make_spec(arguments, world_.size()), env, world_, {1, false}) {
        if (world_.rank() == 0) std::filesystem::create_directories(arguments.directory);
        world_.barrier("the folder");
        assembly_.saver().open(arguments.directory, env, files_);
        save(0);  // pages and files are there from now on
    }

    void run() {
        for (int repeat = 1; repeat <= arguments_.repeats; ++repeat) {
            if (repeat % 2) write_with_dd();
            measure(repeat);
            if (repeat % 2 == 0) write_with_dd();
        }
    }

    nlohmann::ordered_json result() const {
        return {{"model", arguments_.model},
                {"ranks", world_.size()},
                {"async", arguments_.async},
                {"bytes", bytes_},
                {"still_s", median(still_)},
                {"durable_s", median(durable_)},
                {"save_bytes_per_s", bytes_ / median(durable_)},
                {"dd_s", median(dd_)},
                {"dd_bytes_per_s", bytes_ / median(dd_)},
                {"staging_bytes", sum(static_cast<double>(assembly_.arenas().staging.used()))},
                {"added_memory_bytes", median(added_memory_)}};
    }

 private:
    // The values of all ranks.
    double sum(double value) const {
        world_.all_reduce_sum(TensorView(&value, DType::f64, {1}), "a sum");
        return value;
    }
    double longest(double value) const {
        world_.all_reduce_max(TensorView(&value, DType::f64, {1}), "the longest");
        return value;
    }
    // What others left to be written is none of ours.
    void start_together() const {
        if (world_.rank() == 0) ::sync();
        world_.barrier("a start");
    }

    // Seconds that the step loop stands still and, in all, until the checkpoint is durable.
    std::pair<double, double> save(std::int64_t step) {
        checkpoint::SaveFacts facts;
        facts.run.step = step;
        facts.run.optimizer = "adamw";
        start_together();
        const double start = now_seconds();
        auto saved = assembly_.saver().begin(facts);
        const double still = now_seconds() - start;
        if (!saved) saved = assembly_.saver().finish();
        const double durable = now_seconds() - start;
        bytes_ = static_cast<double>(saved->bytes);
        return {longest(still), longest(durable)};
    }

    void measure(std::int64_t step) {
        std::ofstream("/proc/self/clear_refs") << 5;  // the peak begins anew
        const double before = memory("VmRSS");
        const auto [still, durable] = save(step);
        added_memory_.push_back(sum(memory("VmHWM") - before));
        still_.push_back(still);
        durable_.push_back(durable);
    }

    // Each rank its part of the same number of bytes.
    void write_with_dd() {
        const std::string file = arguments_.directory + "/dd." + std::to_string(world_.rank());
        const auto mebibytes = static_cast<std::int64_t>(bytes_ / world_.size() / (1 << 20)) + 1;
        const std::string command = "dd if=/dev/zero of=" + file +
                                    " bs=1M count=" + std::to_string(mebibytes) + " conv=fsync status=none";
        start_together();
        const double start = now_seconds();
        const bool failed = std::system(command.c_str()) != 0;
        dd_.push_back(longest(now_seconds() - start));
        std::filesystem::remove(file);
        if (failed) throw IoError::write(command + ": failed");
    }

    Arguments arguments_;
    comm::Communicator& world_;
    checkpoint::PosixFiles files_;
    train::Assembly assembly_;
    double bytes_ = 0;
    std::vector<double> still_, durable_, dd_, added_memory_;
};

}  // namespace
}  // namespace escalier

int main(int argc, char** argv) {
    escalier::Arguments arguments;
    CLI::App app("The cost of a checkpoint");
    app.add_option("--model", arguments.model, "preset");
    app.add_option("--directory", arguments.directory, "on the disk to be measured; emptied");
    app.add_option("--tp", arguments.tp, "tensor ranks");
    app.add_option("--pp", arguments.pp, "pipeline ranks");
    app.add_option("--dp", arguments.dp, "data-parallel ranks");
    app.add_option("--repeats", arguments.repeats, "saves that count");
    app.add_flag("--async", arguments.async, "from a copy in memory, as checkpoint.async does");
    CLI11_PARSE(app, argc, argv);
    escalier::comm::MpiEnv env(&argc, &argv);
    try {
        env.start_watchdog(600);
        escalier::Bench bench(arguments, env);
        bench.run();
        const auto result = bench.result();
        if (env.world().rank() == 0) {
            std::filesystem::remove_all(arguments.directory);
            std::cout << result.dump() << std::endl;
        }
    } catch (const std::exception& error) {
        env.abort(error);
    }
    return 0;
}
