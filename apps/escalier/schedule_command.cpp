#include "schedule_command.h"

#include <algorithm>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <memory>
#include <sstream>

#include "core/error.h"
#include "core/limits.h"
#include "core/mapped_file.h"
#include "number_options.h"
#include "schedule/csv.h"
#include "schedule/generators.h"
#include "schedule/json.h"
#include "schedule/lower.h"
#include "schedule/prove.h"
#include "schedule/render_text.h"
#include "schedule/simulate.h"
#include "schedule/svg.h"
#include "schedule_compare.h"
#include "schedule_costs.h"

namespace escalier::apps {
namespace {

using schedule::Proof;
using schedule::Schedule;
using schedule::Timeline;

struct ScheduleArguments {
    std::string kind, file, compare;                       // one of them
    int pp = 0, chunks = 0, micro_batches = 0, group = 0;  // 0: not given
    std::string backward, cost, memory, format = "text", out;
    bool overlap = false, communication = false;
};

std::string kind_list() {
    std::size_t name_width = 0, description_width = 0;
    for (const auto& kind : schedule::kinds()) {
        name_width = std::max(name_width, kind.name.size());
        description_width = std::max(description_width, kind.description.size());
    }
    std::ostringstream out;
    for (const auto& kind : schedule::kinds())
        out << "  " << std::left << std::setw(static_cast<int>(name_width)) << kind.name << "  "
            << kind.description << "\n  " << std::setw(static_cast<int>(name_width)) << ""
            << "  (" << kind.constraint << ")\n";
    return out.str();
}

schedule::GenerateOptions sizes_of(const ScheduleArguments& arguments) {
    schedule::GenerateOptions options;
    options.kind = arguments.kind;
    if (!arguments.backward.empty()) options.backward = schedule::parse_backward_order(arguments.backward);
    options.pp = arguments.pp;
    options.chunks = arguments.chunks;
    options.micro_batches = arguments.micro_batches;
    options.group = arguments.group;
    if (options.pp == 0 || options.micro_batches == 0)
        throw ConfigError(std::string(options.pp == 0 ? "--stages" : "--micro-batches") +
                          " is missing; for instance --stages 4 --micro-batches 8");
    return options;
}

Schedule read_file(const ScheduleArguments& arguments) {
    const auto refuse_if = [&](bool given, const std::string& flags, const char* verb) {
        if (given)
            throw ConfigError(flags + " " + verb + " from the cells of --from " + arguments.file +
                              "; leave it out");
    };
    refuse_if(arguments.pp != 0, "--stages", "follows");
    refuse_if(arguments.chunks != 0, "--chunks", "follows");
    refuse_if(arguments.micro_batches != 0, "--micro-batches", "follows");
    refuse_if(arguments.group != 0, "--group", "follows");
    refuse_if(!arguments.backward.empty(), "--backward", "follows");
    const MappedFile file(arguments.file);
    std::istringstream in(std::string(file.bytes().begin(), file.bytes().end()));
    return schedule::from_csv(in, arguments.file);
}

Schedule make_schedule(const ScheduleArguments& arguments, const Costs& costs) {
    const schedule::Kind* kind = nullptr;
    if (arguments.file.empty()) kind = &schedule::require_kind(arguments.kind);
    const bool has_costs = kind != nullptr && kind->has_costs;
    if (!arguments.memory.empty() && !has_costs)
        throw ConfigError("--memory: `" + arguments.kind + arguments.file +
                          "` is not built for a memory limit; leave it out");
    if (kind == nullptr) return read_file(arguments);
    schedule::GenerateOptions options = sizes_of(arguments);
    if (options.chunks == 0) options.chunks = kind->default_chunks;
    if (has_costs) {
        const int stages = options.pp * options.chunks;
        const auto limits =
            arguments.memory.empty() ? std::vector<double>() : parse_memory(arguments.memory, options.pp);
        options.costs = std::make_shared<schedule::StageCosts>(
            schedule::StageCosts{costs.durations(stages), schedule::ActivationBytes::unit(stages), limits});
    }
    return schedule::generate(options);
}

// What is not written would be ignored.
void require_use(const ScheduleArguments& arguments) {
    if (arguments.format != "text" && arguments.format != "csv" && arguments.format != "svg" &&
        arguments.format != "json")
        throw ConfigError("--format: `" + arguments.format + "` is none of text, csv, svg, json");
    const bool csv = arguments.format == "csv";
    if ((arguments.overlap || arguments.communication) && !csv)
        throw ConfigError(std::string(arguments.overlap ? "--overlap" : "--comm") +
                          " is about CSV cells; add --format csv or leave it out");
    const auto given = static_cast<int>(!arguments.kind.empty()) + static_cast<int>(!arguments.file.empty()) +
                       static_cast<int>(!arguments.compare.empty());
    if (given > 1)
        throw ConfigError("more than one of a schedule" +
                          (arguments.kind.empty() ? std::string() : ", `" + arguments.kind + "`,") +
                          " --from and --compare is given; leave one out");
    if (given == 0) throw ConfigError("which schedule? Name one, or a file with --from:\n" + kind_list());
    if (!arguments.compare.empty() && arguments.format != "text")
        throw ConfigError("--compare prints a table; leave --format " + arguments.format + " out");
}

std::string peaks(const std::vector<int>& values) {
    constexpr std::size_t most_listed = 32;
    if (values.size() > most_listed) {
        const auto [least, most] = std::minmax_element(values.begin(), values.end());
        return std::to_string(*least) + " to " + std::to_string(*most);
    }
    std::string text;
    for (const int value : values) text += (text.empty() ? "" : " ") + std::to_string(value);
    return text;
}

std::string proof_text(const Proof& proof) {
    return std::string("proved: completes under rendezvous sends; weight gradients ") +
           (proof.exact ? "in micro-batch order"
                        : "not in micro-batch order: agrees with 1f1b to rounding only");
}

std::string describe(const Schedule& made, const Proof& proof, const Timeline& timeline,
                     const std::string& cost) {
    std::ostringstream text;
    text << schedule::title(made) << ", " << cost << "\n"
         << "makespan " << timeline.makespan << ", messages " << proof.messages
         << ", most activations alive per rank " << peaks(proof.peak_until_weight) << "\n"
         << proof_text(proof) << "\n";
    if (made.has_overlaps()) text << "F&B: an overlapped pair\n";
    text << "\n";
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

// Options that would change nothing for this schedule.
void refuse_idle_options(const ScheduleArguments& arguments, const Costs& costs, const Schedule& made) {
    const schedule::Kind* kind = schedule::find_kind(arguments.kind);
    if (arguments.overlap && !made.has_overlaps())
        throw ConfigError("--overlap: `" + made.kind + "` has no overlapped pairs; leave it out");
    if (!arguments.cost.empty() && arguments.format == "csv" && (kind == nullptr || !kind->has_costs))
        throw ConfigError("--cost changes nothing in the CSV of `" + made.kind + "`; leave it out");
    if (costs.pair_factor != 1 && !made.has_overlaps())
        throw ConfigError("--cost: pair= is about overlapped pairs, `" + made.kind +
                          "` has none; leave it out");
}

int run(const ScheduleArguments& arguments, bool bare) {
    if (bare) {
        write("Schedules for escalier schedule KIND --stages P --micro-batches M:\n" + kind_list(), "");
        return 0;
    }
    require_use(arguments);
    const Costs costs = parse_costs(arguments.cost.empty() ? unit_costs : arguments.cost);
    if (!arguments.compare.empty()) {
        write(compare_schedules(arguments.compare, sizes_of(arguments), costs, arguments.memory),
              arguments.out);
        return 0;
    }
    const Schedule made = make_schedule(arguments, costs);
    refuse_idle_options(arguments, costs, made);
    const auto durations = costs.durations(made.stages());
    const std::vector<schedule::Program> programs = schedule::lower(made);
    const Proof proof = schedule::prove(made, programs);
    if (arguments.format == "csv") {
        write(schedule::to_csv(made, {arguments.overlap, arguments.communication}), arguments.out);
        return 0;
    }
    const Timeline timeline = schedule::simulate(made, programs, durations);
    if (arguments.format == "json")
        write(schedule::to_json(made, durations, timeline, proof), arguments.out);
    else if (arguments.format == "svg")
        write(schedule::to_svg(
                  made, timeline,
                  costs.text + ", messages " + std::to_string(proof.messages) + "; " + proof_text(proof)),
              arguments.out);
    else
        write(describe(made, proof, timeline, costs.text) + schedule::staircase(made, timeline),
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
    command->add_option("--chunks", arguments->chunks, "stages per pipeline rank (default: the schedule's)")
        ->check(whole_number(1, most_schedule_cells));
    command->add_option("--group", arguments->group, "interleaved: micro-batches per visit of a chunk")
        ->check(whole_number(1, most_schedule_cells));
    command->add_option("--backward", arguments->backward,
                        "order of gpipe's and bfs's backwards: fifo or lifo");
    command->add_option("--cost", arguments->cost,
                        std::string("durations of one stage's F, I and W and of a message (default ") +
                            unit_costs +
                            "); F=1:2:1:1 for one per stage; pair=0.9 shortens overlapped pairs");
    command->add_option("--memory", arguments->memory,
                        "auto: most activations of one stage per rank, as 4 or 4:4:3:3");
    command->add_option("--format", arguments->format, "text, csv, svg or json")->capture_default_str();
    command->add_flag("--overlap", arguments->overlap, "csv: overlapped pairs as one cell");
    command->add_flag("--comm", arguments->communication, "csv: with SEND and RECV cells");
    command->add_option("--out", arguments->out, "file to write (default: standard output)");
    command->add_option("--from", arguments->file, "CSV of a schedule of your own, cells like 0F3");
    command->add_option("--compare", arguments->compare, "schedules in one table: names with commas, or all");
    command->callback([arguments, &action, command] {
        const bool bare = command->count_all() == 1;  // itself
        action = [arguments, bare] { return run(*arguments, bare); };
    });
}

}  // namespace escalier::apps
