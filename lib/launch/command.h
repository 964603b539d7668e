// The command lines that start a job: mpirun on this machine or on hosts, srun in a Slurm allocation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/allocation.h"
#include "launch/hosts.h"
#include "launch/machine.h"

namespace escalier::launch {

using Words = std::vector<std::string>;

// As a shell reads it back.
std::string shell_text(const Words& words);

// What Open MPI's mpirun needs beyond the number of ranks; scripts/mpirun, which knows nothing of job or
// machine, sets all of it, by the variables (a test holds the two together).
struct MpirunSetting {
    Words flags;
    Words variables;  // NAME=VALUE, the same by environment
};
const MpirunSetting& as_root();         // only where root starts it
const MpirunSetting& oversubscribed();  // only where there are more ranks than slots
const MpirunSetting& yielding();        // always
const MpirunSetting& unbound();         // where ranks do not get cores of their own

struct MpirunPlan {
    std::int64_t ranks = 1;
    Machine machine;
    std::vector<Host> hosts;  // empty: this machine, or the allocation
    std::string hostfile;     // the file that named them; empty: a list did
    std::string agent;        // how commands are run on other hosts; empty: as Open MPI is set up, ssh
    std::optional<Allocation> allocation;
    Words exported;  // names of variables that ranks on other hosts are to have
    // Lets mpirun notice within 40 s that a host is gone, which it would wait for a quarter of an hour for.
    bool watch_hosts = false;
};

// Ranks fill one host or socket after the other, so that neighbours, the ranks of a tensor group, sit side by
// side. On this machine alone each rank is bound to its share of the cores, if that is two at least: ranks
// have helper threads, which would fight with compute for a single core.
Words mpirun_command(const MpirunPlan& plan, const Words& program);

struct SrunPlan {
    std::int64_t ranks = 1;
    std::int64_t cpus_per_task = 0;  // srun does not take it over from sbatch; 0: as Slurm has it
    bool overcommit = false;         // more ranks than CPUs
    bool gpus = false;               // each rank is to see all GPUs of its node and takes its own
};
SrunPlan srun_plan(std::int64_t ranks, const Allocation& allocation);
Words srun_command(const SrunPlan& plan, const Words& program);

// Names of those variables that must reach ranks on other hosts: settings of NCCL, UCX, CUDA, OpenMP, oneDNN
// and Escalier. environment: entries NAME=VALUE.
Words variables_for_hosts(const Words& environment);

}  // namespace escalier::launch
