// A batch file for Slurm's sbatch: a job that saves before its time is up, goes back into the queue and
// resumes, or an array of such jobs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/command.h"

namespace escalier::launch {

enum class Starter { srun, mpirun };

struct BatchPlan {
    std::string name;  // of the job in the queue, and of its output file
    Starter starter = Starter::srun;
    std::int64_t nodes = 1;
    std::int64_t tasks = 1;          // of all nodes together; the points of an array may run fewer
    std::int64_t cpus_per_task = 0;  // 0: Slurm's default
    std::int64_t gpus_per_node = 0;
    std::string time;                     // limit, as Slurm writes it; empty: that of the partition
    std::int64_t signal_seconds = 300;    // SIGUSR1 comes so long before the limit
    std::string partition, account;       // empty: Slurm's default
    std::vector<std::string> directives;  // more of sbatch's options, "--exclusive"
    std::int64_t most_at_once = 0;        // of an array; 0: no limit
    std::string written_by;               // the command line that made the file

    // What is run: one is a plain job, several are an array.
    struct Point {
        std::int64_t ranks = 1;
        Words program;
    };
    std::vector<Point> points;

    // Instead of points, an array of so many elements: each runs `element` with --index and its own number,
    // which starts the ranks itself and hands SIGUSR1 on to them.
    std::int64_t elements = 0;
    Words element;

    bool is_array() const { return elements > 0 || points.size() > 1; }
    std::int64_t array_size() const {
        return elements > 0 ? elements : static_cast<std::int64_t>(points.size());
    }
};

std::string batch_file(const BatchPlan& plan);

// As sbatch's --time takes it: minutes, or [days-]hours:minutes:seconds and their short forms. ConfigError.
void check_time_limit(const std::string& text);

}  // namespace escalier::launch
