// Whether ranks can be started on other hosts: mpirun itself says little about why they cannot.
#pragma once

#include <string>
#include <vector>

namespace escalier::launch {

// What is run on a host, by the agent, to find out. program: the binary of the job.
std::string host_question(const std::string& program);

struct HostAnswer {
    std::string host;
    bool in_time = true;
    int exit_code = 0;   // of the agent
    std::string output;  // of agent and question together
};

// What would keep ranks from starting there, and how to mend it; empty if nothing. agent: the remote-start
// command, "ssh". mpi_version: of Open MPI here, "4.1.4".
std::string host_problem(const HostAnswer& answer, const std::string& agent, const std::string& program,
                         const std::string& mpi_version);

// "4.1.4" of "mpirun (Open MPI) 4.1.4"; empty if there is none.
std::string open_mpi_version(const std::string& text);

}  // namespace escalier::launch
