#include "launch/batch_file.h"

#include <regex>

#include "core/check.h"
#include "core/error.h"
#include "core/text.h"

namespace escalier::launch {

namespace {

// Slurm signals the steps of srun, or the batch shell alone, which then hands the signal on.
bool shell_gets_signal(const BatchPlan& plan) {
    return plan.starter == Starter::mpirun || plan.elements > 0;
}

std::string directives(const BatchPlan& plan) {
    std::string text;
    const auto line = [&](const std::string& option) { text += "#SBATCH " + option + "\n"; };
    const auto sized = [&](const char* option, std::int64_t value) {
        if (value > 0) line(option + std::to_string(value));
    };
    line("--job-name=" + plan.name);
    sized("--nodes=", plan.nodes);
    sized("--ntasks=", plan.tasks);
    sized("--ntasks-per-node=", plan.tasks / plan.nodes);
    sized("--cpus-per-task=", plan.cpus_per_task);
    sized("--gpus-per-node=", plan.gpus_per_node);
    if (!plan.time.empty()) line("--time=" + plan.time);
    if (!plan.partition.empty()) line("--partition=" + plan.partition);
    if (!plan.account.empty()) line("--account=" + plan.account);
    if (plan.is_array())
        line("--array=0-" + std::to_string(plan.array_size() - 1) +
             (plan.most_at_once > 0 ? "%" + std::to_string(plan.most_at_once) : ""));
    line((shell_gets_signal(plan) ? "--signal=B:USR1@" : "--signal=USR1@") +
         std::to_string(plan.signal_seconds));
    line("--requeue");
    line("--open-mode=append");
    line(plan.is_array() ? "--output=%x-%A_%a.out" : "--output=%x-%j.out");
    for (const std::string& more : plan.directives) line(more);
    return text;
}

Words started(const BatchPlan& plan, const BatchPlan::Point& point) {
    Allocation allocation;
    allocation.nodes = plan.nodes;
    allocation.tasks = plan.tasks;
    allocation.cpus_per_task = plan.cpus_per_task;
    allocation.gpus_per_node = plan.gpus_per_node;
    if (plan.starter == Starter::srun) return srun_command(srun_plan(point.ranks, allocation), point.program);
    MpirunPlan mpirun;
    mpirun.ranks = point.ranks;
    mpirun.allocation = allocation;
    return mpirun_command(mpirun, point.program);
}

// Sets `command` to what is run.
std::string choice_of_point(const BatchPlan& plan) {
    std::string text = "case $SLURM_ARRAY_TASK_ID in\n";
    for (std::size_t i = 0; i < plan.points.size(); ++i)
        text += std::to_string(i) + ") command=(" + shell_text(started(plan, plan.points[i])) + ") ;;\n";
    return text +
           "*)\n    echo \"no point $SLURM_ARRAY_TASK_ID in this array\" >&2\n    exit 2\n    ;;\nesac\n";
}

std::string element_command(const BatchPlan& plan) {
    return shell_text(plan.element) + " --index \"$SLURM_ARRAY_TASK_ID\"";
}

// bash runs the job in the background, since it would hold a signal back until a foreground job has ended. A
// signal ends `wait`, which is then started again.
std::string watched(const std::string& command) {
    return command +
           " &\n"
           "pid=$!\n"
           "trap 'signalled=yes; kill -USR1 \"$pid\"' USR1\n"
           "while :; do\n"
           "    signalled=\n"
           "    wait \"$pid\"\n"
           "    code=$?\n"
           "    [ -n \"$signalled\" ] || break\n"
           "done\n";
}

}  // namespace

std::string batch_file(const BatchPlan& plan) {
    ESCALIER_CHECK(plan.array_size() > 0 && plan.nodes >= 1, "a batch file has something to run");
    std::string text =
        "#!/bin/bash\n" + directives(plan) +
        "#\n"
        "# Written by: " +
        plan.written_by +
        "\n"
        "# Submit it with sbatch from the folder that the paths in it start from.\n"
        "#\n"
        "# " +
        std::to_string(plan.signal_seconds) +
        " s before the time limit Slurm sends SIGUSR1: all ranks save at the end of their step and\n"
        "# end with 75. The job then goes back into the queue and resumes from that checkpoint.\n\n";
    const bool chooses = plan.points.size() > 1;
    if (chooses) text += choice_of_point(plan) + "\n";
    const std::string command = plan.elements > 0 ? element_command(plan)
                                : chooses         ? "\"${command[@]}\""
                                                  : shell_text(started(plan, plan.points[0]));
    text += shell_gets_signal(plan) ? watched(command) : command + "\ncode=$?\n";
    text += "if [ \"$code\" -eq 75 ]; then\n    scontrol requeue \"";
    text += plan.is_array() ? "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID" : "$SLURM_JOB_ID";
    text += "\"\nfi\nexit \"$code\"\n";
    return text;
}

void check_time_limit(const std::string& text) {
    static const std::regex form("([0-9]{1,4}-[0-9]{1,2}(:[0-9]{1,2}){0,2})|([0-9]{1,6}(:[0-9]{1,2}){0,2})");
    if (!std::regex_match(text, form))
        throw ConfigError("--time: found " + shortened(text) +
                          ", wanted minutes, hours:minutes:seconds or days-hours, such as 24:00:00");
}

}  // namespace escalier::launch
