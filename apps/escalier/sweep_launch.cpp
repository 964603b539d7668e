#include "sweep_launch.h"

#include <algorithm>

#include "config/load.h"
#include "launch/command.h"
#include "launch_facts.h"

namespace escalier::apps {

std::vector<std::string> point_command(const sweep::Point& point, const std::vector<std::string>& arguments,
                                       int jobs) {
    launch::Words program = {own_program()};
    program.insert(program.end(), arguments.begin(), arguments.end());
    const std::optional<launch::Allocation> allocation =
        launch::slurm_allocation(config::process_environment());
    if (allocation && srun_offers_pmix())
        return launch::srun_command(launch::srun_plan(point.ranks, *allocation), program);
    launch::MpirunPlan plan;
    plan.ranks = point.ranks;
    plan.machine = this_machine();
    if (jobs > 1)  // each would bind to the same cores
        plan.machine.cores = static_cast<int>(std::min<std::int64_t>(plan.machine.cores, point.ranks));
    plan.allocation = allocation;
    if (allocation && allocation->nodes > 1) plan.exported = launch::variables_for_hosts(own_environment());
    return launch::mpirun_command(plan, program);
}

}  // namespace escalier::apps
