#include "env_command.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "comm/mpi_env.h"
#include "kernels/matrix_library.h"
#include "train/cuda_plugin.h"

namespace escalier::apps {

namespace {

std::string processor() {
    std::ifstream in("/proc/cpuinfo");
    for (std::string line; std::getline(in, line);)
        if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
    return "unknown";
}

// Variables that change how a run behaves or how fast it is.
std::vector<std::string> relevant_variables() {
    constexpr std::string_view prefixes[] = {"OMPI_MCA_", "OMP_",   "NCCL_",     "CUDA_",
                                             "UCX_",      "SLURM_", "PMIX_MCA_", "DNNL_"};
    std::vector<std::string> out;
    for (char** variable = environ; *variable; ++variable)
        if (std::any_of(std::begin(prefixes), std::end(prefixes), [&](std::string_view prefix) {
                return std::string_view(*variable).starts_with(prefix);
            }))
            out.emplace_back(*variable);
    std::sort(out.begin(), out.end());
    return out;
}

int run() {
    comm::MpiEnv env(nullptr, nullptr);
    if (env.world().rank() != 0) return 0;
    utsname system{};
    uname(&system);
    std::cout << "escalier   " << ESCALIER_VERSION << ", built by " << __VERSION__ << "\n"
              << "system     " << system.sysname << ' ' << system.release << ", " << system.machine << '\n'
              << "processor  " << processor() << ", " << env.place().allowed_cores << " cores allowed here\n"
              << "mpi        " << env.version() << ", " << env.world().size() << " processes\n"
              << "blas       " << kernels::cpu_matrix_library() << '\n'
              << "cuda       " << train::cuda_state() << '\n';
    const std::vector<std::string> variables = relevant_variables();
    std::cout << (variables.empty() ? "no variable of MPI, OpenMP, Slurm or CUDA is set\n" : "variables\n");
    for (const std::string& variable : variables) std::cout << "  " << variable << '\n';
    return 0;
}

}  // namespace

void add_env_command(CLI::App& app, std::function<int()>& action) {
    app.add_subcommand("env", "Print versions, processor, MPI, and the variables that matter")
        ->callback([&action] { action = run; });
}

}  // namespace escalier::apps
