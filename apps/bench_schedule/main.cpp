// Measures how long schedules take to generate, lower and prove, and how much memory that takes. Every row
// runs in a process of its own, so that its peak memory is its own.
//
//   bench_schedule                             the sizes of the README's table
//   bench_schedule KIND RANKS CHUNKS MICRO_BATCHES
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "core/clock.h"
#include "schedule/generators.h"
#include "schedule/lower.h"
#include "schedule/prove.h"

using namespace escalier;

namespace {

std::size_t count_actions(const schedule::Schedule& made) {
    std::size_t actions = 0;
    for (const auto& rank : made.ranks) actions += rank.size();
    return actions;
}

void measure(const schedule::GenerateOptions& options) {
    const double start = now_seconds();
    const schedule::Schedule made = schedule::generate(options);
    const double generated = now_seconds();
    const std::vector<schedule::Program> programs = schedule::lower(made);
    const double lowered = now_seconds();
    schedule::prove(made, programs);
    const double proved = now_seconds();
    const auto actions = static_cast<double>(count_actions(made));
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    std::printf("%-15s %5d %7d %14d %10.0f %10.3f %9.3f %9.3f %9.3f %12.0f %9ld\n", made.kind.c_str(),
                made.pp, made.chunks, made.micro_batches, actions, generated - start, lowered - generated,
                proved - lowered, proved - start, (proved - start) / actions * 1e9, usage.ru_maxrss / 1024);
    std::fflush(stdout);
}

bool measure_alone(const schedule::GenerateOptions& options) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        try {
            measure(options);
            _exit(0);
        } catch (const std::exception& error) {
            std::cerr << "bench_schedule: " << error.what() << std::endl;
            _exit(1);
        }
    }
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

std::vector<schedule::GenerateOptions> table() {
    std::vector<schedule::GenerateOptions> rows;
    for (const schedule::Kind& kind : schedule::kinds()) {
        schedule::GenerateOptions options;
        options.kind = kind.name;
        options.pp = 64;
        options.micro_batches = 1024;
        options.chunks = 4;
        if (!schedule::size_problem(kind, options).empty()) options.chunks = kind.default_chunks;
        rows.push_back(options);
    }
    for (const char* kind : {"1f1b", "interleaved", "zbv"})
        for (const int scale : {1, 2, 4})
            rows.push_back({kind, 64 * scale, schedule::find_kind(kind)->default_chunks, 1024 * scale});
    return rows;
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<schedule::GenerateOptions> rows = table();
    if (argc == 5)
        rows = {{argv[1], std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4])}};
    else if (argc != 1) {
        std::cerr << "usage: bench_schedule [KIND RANKS CHUNKS MICRO_BATCHES]" << std::endl;
        return 2;
    }
    std::printf("%-15s %5s %7s %14s %10s %10s %9s %9s %9s %12s %9s\n", "schedule", "ranks", "chunks",
                "micro-batches", "actions", "generate s", "lower s", "prove s", "total s", "ns per action",
                "peak MiB");
    bool all = true;
    for (const schedule::GenerateOptions& row : rows) all = measure_alone(row) && all;
    return all ? 0 : 1;
}
