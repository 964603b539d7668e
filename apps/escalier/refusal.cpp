#include "refusal.h"

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string_view>
#include <thread>

namespace escalier::apps {

namespace {

constexpr std::chrono::seconds patience{5};

}  // namespace

// Launchers tell a process its rank before MPI does.
bool first_process() {
    for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"})
        if (const char* rank = std::getenv(variable)) return std::string_view(rank) == "0";
    return true;
}

void say_once(const std::function<void()>& say) {
    if (!first_process()) {
        if (!std::getenv("OMPI_COMM_WORLD_RANK")) return;  // srun lets the others go on
        std::this_thread::sleep_for(patience);
    }
    say();
}

int refuse(const char* message, ExitCode code) {
    say_once([&] { std::cerr << "escalier: " << message << std::endl; });
    return static_cast<int>(code);
}

}  // namespace escalier::apps
