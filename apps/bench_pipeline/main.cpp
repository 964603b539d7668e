// Runs a schedule with actions of set durations through executor, channels and messages, one process per
// pipeline rank, and puts the idle share beside the simulated one. Started by mpirun; scripts/bench_pipeline
// makes the tables.
//
//   --clock sleep    an action sleeps for its duration: many ranks on few cores, in real time
//   --clock real     an action keeps its core busy for its duration: as many ranks as cores
//   --clock virtual  no time passes; equal to the simulator
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "comm/mpi_env.h"
#include "core/error.h"
#include "number_options.h"
#include "pipeline/bubble.h"
#include "pipeline/cost_pipeline.h"
#include "pipeline/end_exchange.h"
#include "schedule/generators.h"
#include "schedule/lower.h"
#include "schedule/simulate.h"
#include "schedule_costs.h"

namespace escalier {
namespace {

struct Arguments {
    std::string clock = "virtual", kind = "1f1b", backward = "fifo", cost = "F=10,I=10,W=10,comm=0";
    int micro_batches = 8, chunks = 0, group = 0, repeats = 3;
    std::int64_t bytes = 8;
    bool json = false, list = false;
};

// What is the same on all ranks.
struct Plan {
    schedule::Schedule schedule;
    std::vector<schedule::Program> programs;
    schedule::Durations durations;  // seconds
    schedule::Timeline simulated;
};

Plan make_plan(const Arguments& a, int ranks) {
    const apps::Costs costs = apps::parse_costs(a.cost);
    if (costs.transfer > 0 && a.clock != "virtual")
        throw ConfigError("--cost: comm= holds on the virtual clock; with --clock " + a.clock +
                          " messages take as long as they do; leave it out");
    schedule::GenerateOptions options;
    options.kind = a.kind;
    options.pp = ranks;
    options.micro_batches = a.micro_batches;
    options.backward = schedule::parse_backward_order(a.backward);
    options.group = a.group;
    const schedule::Kind* kind = schedule::find_kind(a.kind);
    options.chunks = a.chunks != 0 || kind == nullptr ? std::max(1, a.chunks) : kind->default_chunks;
    Plan plan;
    plan.schedule = schedule::generate(options);
    plan.programs = schedule::lower(plan.schedule);
    constexpr double seconds = 1e-3;
    plan.durations = costs.durations(plan.schedule.stages(), seconds);
    plan.durations.transfer *= seconds;
    plan.simulated = schedule::simulate(plan.schedule, plan.durations);
    return plan;
}

std::unique_ptr<pipeline::Clock> make_clock(const std::string& name, const Plan& plan) {
    if (name == "sleep") return std::make_unique<pipeline::SleepClock>();
    if (name == "real") return std::make_unique<pipeline::RealClock>();
    return std::make_unique<pipeline::VirtualClock>(plan.durations.transfer);
}

// One repeat, as all ranks recorded it.
struct Repeat {
    pipeline::Bubble bubble;
    double idle_of_set_work = 0;  // with the set durations for the time inside actions
};

std::vector<Repeat> measure(const Arguments& a, const Plan& plan, comm::MpiEnv& env) {
    comm::Communicator& world = env.world();
    pipeline::CostPipeline pipeline(env, world, plan.schedule, plan.programs, a.bytes);
    pipeline::EndExchange exchange(env, world, plan.programs);
    const std::unique_ptr<pipeline::Clock> clock = make_clock(a.clock, plan);
    pipeline.set(plan.durations, *clock);
    double set_work = 0;
    for (const double busy : plan.simulated.busy) set_work += busy / static_cast<double>(world.size());
    std::vector<Repeat> repeats;
    for (int run = 0; run <= a.repeats; ++run) {
        if (auto* own = dynamic_cast<pipeline::VirtualClock*>(clock.get())) own->restart();
        world.barrier("the start of a step");
        exchange.split(pipeline.run());
        if (run == 0) continue;  // connections are made with the first messages
        pipeline::BubbleRecorder recorder(plan.schedule, plan.programs);
        recorder.add(exchange.actions());
        const pipeline::Bubble bubble = recorder.bubble();
        repeats.push_back({bubble, 1 - set_work / bubble.measured_makespan});
    }
    std::sort(repeats.begin(), repeats.end(), [](const Repeat& x, const Repeat& y) {
        return x.bubble.measured_makespan < y.bubble.measured_makespan;
    });
    return repeats;
}

nlohmann::ordered_json to_json(const Repeat& r) {
    const pipeline::Bubble& b = r.bubble;
    return {{"makespan_ms", 1e3 * b.measured_makespan},
            {"replay_ms", 1e3 * b.replayed_makespan},
            {"idle", b.measured},
            {"idle_of_set_work", r.idle_of_set_work},
            {"theory", b.theory},
            {"simulated", b.simulated},
            {"imbalance", b.imbalance()},
            {"stragglers", b.stragglers()},
            {"communication", b.communication()}};
}

void print_row(const char* name, const Repeat& r, const schedule::Timeline& simulated) {
    const pipeline::Bubble& b = r.bubble;
    std::printf("%-10s %11.3f  %9.2f %%  %+9.2f  %13.2f %%  %+9.2f\n", name, 1e3 * b.measured_makespan,
                100 * b.measured, 100 * (b.measured - simulated.idle_share), 100 * r.idle_of_set_work,
                100 * (r.idle_of_set_work - simulated.idle_share));
}

void print(const Arguments& a, const Plan& plan, const std::vector<Repeat>& repeats) {
    const Repeat &best = repeats.front(), &median = repeats[repeats.size() / 2];
    const schedule::Timeline& simulated = plan.simulated;
    if (a.json) {
        const nlohmann::ordered_json result = {{"clock", a.clock},
                                               {"kind", a.kind},
                                               {"backward", a.backward},
                                               {"ranks", plan.schedule.pp},
                                               {"chunks", plan.schedule.chunks},
                                               {"micro_batches", a.micro_batches},
                                               {"cost_ms", a.cost},
                                               {"bytes", a.bytes},
                                               {"repeats", a.repeats},
                                               {"simulated_ms", 1e3 * simulated.makespan},
                                               {"simulated_idle", simulated.idle_share},
                                               {"best", to_json(best)},
                                               {"median", to_json(median)}};
        std::cout << result.dump() << std::endl;
        return;
    }
    std::printf("%s, %d ranks, %d stages, %d micro-batches; %s clock, %s ms, messages of %lld bytes\n",
                a.kind.c_str(), plan.schedule.pp, plan.schedule.stages(), a.micro_batches, a.clock.c_str(),
                a.cost.c_str(), static_cast<long long>(a.bytes));
    std::printf(
        "idle: (makespan - busy) / makespan, mean over ranks; busy: time inside actions, or as set\n");
    std::printf("           makespan ms  idle measured     points  idle of set work     points\n");
    std::printf("%-10s %11.3f  %9.2f %%             %13.2f %%\n", "simulated", 1e3 * simulated.makespan,
                100 * simulated.idle_share, 100 * simulated.idle_share);
    print_row("best", best, simulated);
    print_row("median", median, simulated);
    const pipeline::Bubble& b = best.bubble;
    std::printf(
        "best: idle %.2f %% with each stage's mean times, %.2f %% measured (%+.2f stragglers, %+.2f "
        "communication); "
        "a replay of its actions takes %.3f ms (%+.2f %%)\n",
        100 * b.simulated, 100 * b.measured, 100 * b.stragglers(), 100 * b.communication(),
        1e3 * b.replayed_makespan, 100 * (b.replayed_makespan / b.measured_makespan - 1));
}

int run(const Arguments& a) {
    comm::MpiEnv env(nullptr, nullptr);
    try {
        Plan plan;
        env.agree([&] { plan = make_plan(a, env.world().size()); });
        const std::vector<Repeat> repeats = measure(a, plan, env);
        if (env.world().rank() == 0) print(a, plan, repeats);
        return 0;
    } catch (const comm::AgreedError& error) {
        if (env.world().rank() == 0) std::cerr << "bench_pipeline: " << error.what() << std::endl;
        return static_cast<int>(error.code());
    } catch (const std::exception& error) {
        env.abort(error);
    }
}

}  // namespace
}  // namespace escalier

int main(int argc, char** argv) {
    using escalier::apps::whole_number;
    escalier::Arguments a;
    CLI::App app("Runs a schedule with actions of set durations, one process per pipeline rank.",
                 "bench_pipeline");
    app.add_option("--clock", a.clock, "real, sleep or virtual")
        ->check(CLI::IsMember({"real", "sleep", "virtual"}));
    app.add_option("--kind", a.kind, "Schedule");
    app.add_option("--backward", a.backward, "Order of the backward passes: fifo or lifo");
    app.add_option("--micro-batches", a.micro_batches, "Micro-batches")->check(whole_number(1, 1 << 20));
    app.add_option("--chunks", a.chunks, "Stages per rank (default: of the kind)")
        ->check(whole_number(1, 1024));
    app.add_option("--group", a.group, "Micro-batches per visit of a chunk")->check(whole_number(1, 1 << 20));
    app.add_option("--cost", a.cost,
                   "Durations in ms, one or one per stage: F=10,I=10:20,W=10,comm=0,pair=1");
    app.add_option("--bytes", a.bytes, "Size of a message")->check(whole_number(8, std::int64_t{1} << 30));
    app.add_option("--repeats", a.repeats, "Measured steps")->check(whole_number(1, 1000));
    app.add_flag("--json", a.json, "One JSON object instead of the table");
    app.add_flag("--list", a.list, "Print the names of the schedules and leave");
    CLI11_PARSE(app, argc, argv);
    if (a.list) {
        for (const escalier::schedule::Kind& kind : escalier::schedule::kinds())
            std::cout << kind.name << "\n";
        return 0;
    }
    return escalier::run(a);
}
