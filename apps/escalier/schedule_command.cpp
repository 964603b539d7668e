#include "schedule_command.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>

#include "core/error.h"
#include "core/limits.h"
#include "number_options.h"
#include "schedule/generators.h"
#include "schedule/lower.h"
#include "schedule/prove.h"
#include "schedule/render.h"
#include "schedule/simulate.h"

namespace escalier::apps {
namespace {

using schedule::Durations;
using schedule::Proof;
using schedule::Schedule;
using schedule::Timeline;

struct ScheduleArguments {
    std::string kind, file;
    int pp = 0, chunks = 0, micro_batches = 0;  // 0: not given
    std::string backward = "fifo", cost = "F=1,I=1,W=1,comm=0", format = "text", out;
};

struct Cost {
    double forward = 1, input_gradient = 1, weight_gradient = 1, transfer = 0;
};

double parse_duration(const std::string& item, const std::string& text) {
    double value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() ||
        !(value >= 0 && value <= 1e9))
        throw ConfigError("--cost: `" + item + "` needs a duration from 0 to 1e9 after `=`, as in F=1");
    return value;
}

Cost parse_cost(const std::string& text) {
    Cost cost;
    std::istringstream items(text);
    for (std::string item; std::getline(items, item, ',');) {
        const std::string name = item.substr(0, item.find('='));
        double* field = name == "F"      ? &cost.forward
                        : name == "I"    ? &cost.input_gradient
                        : name == "W"    ? &cost.weight_gradient
                        : name == "comm" ? &cost.transfer
                                         : nullptr;
        if (field == nullptr || item.find('=') == std::string::npos)
            throw ConfigError("--cost: `" + item + "` is none of F=, I=, W=, comm=; write for instance " +
                              "F=1,I=1,W=1,comm=0");
        *field = parse_duration(item, item.substr(name.size() + 1));
    }
    if (cost.forward + cost.input_gradient + cost.weight_gradient <= 0)
        throw ConfigError("--cost: F, I and W are all 0; at least one must take time");
    return cost;
}

Schedule read_file(const ScheduleArguments& arguments) {
    if (!arguments.kind.empty())
        throw ConfigError("both a schedule, `" + arguments.kind + "`, and --from " + arguments.file +
                          " are given; leave one out");
    if (arguments.pp != 0 || arguments.chunks != 0 || arguments.micro_batches != 0)
        throw ConfigError("--stages, --chunks and --micro-batches follow from the cells of --from " +
                          arguments.file + "; leave them out");
    std::ifstream in(arguments.file);
    if (!in) throw IoError::read("--from " + arguments.file + ": the file cannot be read");
    return schedule::from_csv(in, arguments.file);
}

Schedule make_schedule(const ScheduleArguments& arguments) {
    if (!arguments.file.empty()) return read_file(arguments);
    if (arguments.kind.empty()) {
        std::string known;
        std::size_t widest = 0;
        for (const auto& kind : schedule::kinds()) widest = std::max(widest, kind.name.size());
        for (const auto& kind : schedule::kinds())
            known += "\n  " + std::string(kind.name) + std::string(widest + 2 - kind.name.size(), ' ') +
                     std::string(kind.description) + " (" + std::string(kind.constraint) + ")";
        throw ConfigError("which schedule? Name one, or a file with --from:" + known);
    }
    schedule::GenerateOptions options;
    options.kind = arguments.kind;
    options.backward = schedule::parse_backward_order(arguments.backward);
    options.pp = arguments.pp;
    options.micro_batches = arguments.micro_batches;
    const schedule::Kind* kind = schedule::find_kind(options.kind);
    options.chunks = arguments.chunks == 0 && kind != nullptr ? kind->default_chunks : arguments.chunks;
    if (kind != nullptr && (options.pp == 0 || options.micro_batches == 0))
        throw ConfigError(std::string(options.pp == 0 ? "--stages" : "--micro-batches") +
                          " is missing; for instance --stages 4 --micro-batches 8");
    return schedule::generate(options);
}

std::string range_of(const std::vector<int>& values) {
    std::string text;
    for (const int value : values) text += (text.empty() ? "" : " ") + std::to_string(value);
    return text;
}

std::string describe(const Schedule& made, const Proof& proof, const Timeline& timeline,
                     const std::string& cost) {
    std::ostringstream text;
    text << made.kind << ": " << made.pp << " pipeline ranks, ";
    if (made.chunks > 1) text << made.chunks << " chunks per rank, ";
    text << made.micro_batches << " micro-batches, " << cost << "\n"
         << "makespan " << timeline.makespan << ", messages " << proof.messages
         << ", most activations alive per rank " << range_of(proof.peak_until_weight) << "\n"
         << "proved: completes under rendezvous sends; weight gradients "
         << (proof.exact ? "in micro-batch order"
                         : "not in micro-batch order: agrees with 1f1b to rounding only")
         << "\n\n";
    return text.str();
}

void write(const std::string& text, const std::string& path) {
    if (path.empty()) {
        std::cout << text << std::flush;
        return;
    }
    std::ofstream out(path);
    out << text << std::flush;
    if (!out) throw IoError::write("--out " + path + ": the file cannot be written");
}

int run(const ScheduleArguments& arguments) {
    const Cost cost = parse_cost(arguments.cost);
    if (arguments.format != "text" && arguments.format != "csv")
        throw ConfigError("--format: `" + arguments.format + "` is neither text nor csv");
    const Schedule made = make_schedule(arguments);
    const std::vector<schedule::Program> programs = schedule::lower(made);
    const Proof proof = schedule::prove(made, programs);
    if (arguments.format == "csv") {
        write(schedule::to_csv(made), arguments.out);
        return 0;
    }
    const auto durations = Durations::uniform(made.stages(), cost.forward, cost.input_gradient,
                                              cost.weight_gradient, cost.transfer);
    const Timeline timeline = schedule::simulate(made, programs, durations);
    write(describe(made, proof, timeline, arguments.cost) + schedule::staircase(made, timeline),
          arguments.out);
    return 0;
}

}  // namespace

void add_schedule_command(CLI::App& app, std::function<int()>& action) {
    auto arguments = std::make_shared<ScheduleArguments>();
    CLI::App* command = app.add_subcommand("schedule", "print, prove and time a pipeline schedule");
    std::string names;
    for (const auto& kind : schedule::kinds()) names += (names.empty() ? "" : ", ") + std::string(kind.name);
    command->add_option("kind", arguments->kind, names);
    command->add_option("--stages,--pp", arguments->pp, "pipeline ranks")
        ->check(whole_number(1, most_schedule_cells));
    command->add_option("--micro-batches", arguments->micro_batches, "micro-batches per step")
        ->check(whole_number(1, most_schedule_cells));
    command
        ->add_option("--chunks", arguments->chunks,
                     "stages per pipeline rank (default: what the schedule needs)")
        ->check(whole_number(1, most_schedule_cells));
    command->add_option("--backward", arguments->backward, "gpipe's backward order: fifo or lifo")
        ->capture_default_str();
    command->add_option("--cost", arguments->cost, "durations of one stage's F, I and W and of a message")
        ->capture_default_str();
    command->add_option("--format", arguments->format, "text or csv")->capture_default_str();
    command->add_option("--out", arguments->out, "file to write (default: standard output)");
    command->add_option("--from", arguments->file, "CSV of a schedule of your own, cells like 0F3");
    command->callback([arguments, &action] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace escalier::apps
