#include "launch_facts.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "captured_process.h"
#include "core/error.h"
#include "launch/allocation.h"
#include "launch/command.h"
#include "launch/host_check.h"

namespace escalier::apps {

namespace {

constexpr double patience_s = 20;  // for an answer of another host
constexpr std::size_t hosts_at_once = 64;

int number_in(const std::string& path, int otherwise) {
    std::ifstream in(path);
    int value = otherwise;
    return in >> value ? value : otherwise;
}

// Hardware threads of one core count once.
int allowed_whole_cores() {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    std::set<std::pair<int, int>> cores;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (!CPU_ISSET(cpu, &set)) continue;
        const std::string topology = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
        cores.emplace(number_in(topology + "physical_package_id", 0), number_in(topology + "core_id", cpu));
    }
    return std::max(1, static_cast<int>(cores.size()));
}

// By the driver's devices, which is all that a process without CUDA can see.
int visible_gpus() {
    int devices = 0;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator("/dev", none)) {
        const std::string name = entry.path().filename();
        devices += name.size() > 6 && name.starts_with("nvidia") &&
                   std::all_of(name.begin() + 6, name.end(), [](char c) { return c >= '0' && c <= '9'; });
    }
    const char* chosen = std::getenv("CUDA_VISIBLE_DEVICES");
    if (!chosen) return devices;
    int visible = 0;
    std::istringstream parts(chosen);
    for (std::string part; std::getline(parts, part, ',') && !part.empty() && part[0] != '-';) ++visible;
    return std::min(visible, devices);
}

bool is_here(const std::string& host) {
    char own[256] = "";
    gethostname(own, sizeof own - 1);
    const std::string name = own;
    return host == name || host == name.substr(0, name.find('.')) || host == "localhost" ||
           host == "127.0.0.1";
}

std::vector<std::string> split(const std::string& text) {
    std::istringstream words(text);
    return {std::istream_iterator<std::string>(words), {}};
}

std::string agent_or_default(const std::string& agent) {
    if (!agent.empty()) return agent;
    const char* set = std::getenv("OMPI_MCA_plm_rsh_agent");
    return set && *set ? set : "ssh";
}

}  // namespace

launch::Machine this_machine() {
    return {allowed_whole_cores(), visible_gpus(), geteuid() == 0};
}

std::string own_program() {
    std::error_code problem;
    const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", problem);
    if (problem) return "escalier";
    const std::filesystem::path relative = program.lexically_relative(std::filesystem::current_path(problem));
    const bool below = !problem && !relative.empty() && *relative.begin() != "..";
    return below && relative.has_parent_path() ? relative.string() : program.string();
}

std::string own_command_line() {
    std::ifstream in("/proc/self/cmdline");
    std::vector<std::string> words;
    for (std::string word; std::getline(in, word, '\0');) words.push_back(word);
    if (!words.empty()) words[0] = "escalier";
    return launch::shell_text(words);
}

std::vector<std::string> own_environment() {
    std::vector<std::string> entries;
    for (char** entry = environ; *entry; ++entry) entries.emplace_back(*entry);
    return entries;
}

bool srun_offers_pmix() {
    const Captured answer = run_captured({{"srun", "--mpi=list"}}, patience_s)[0];
    return answer.started && answer.in_time && launch::offers_pmix(answer.output);
}

void check_hosts(const std::vector<launch::Host>& hosts, const std::string& agent,
                 const std::string& program) {
    std::vector<std::string> others;
    for (const launch::Host& host : hosts)
        if (!is_here(host.name)) others.push_back(host.name);
    if (others.empty()) return;
    const std::string version =
        launch::open_mpi_version(run_captured({{"mpirun", "--version"}}, patience_s)[0].output);
    const std::string used = agent_or_default(agent);
    std::string problems;
    for (std::size_t from = 0; from < others.size(); from += hosts_at_once) {
        const std::size_t end = std::min(others.size(), from + hosts_at_once);
        std::vector<std::vector<std::string>> questions;
        for (std::size_t i = from; i < end; ++i) {
            questions.push_back(split(used));
            questions.back().push_back(others[i]);
            questions.back().push_back(launch::host_question(program));
        }
        const std::vector<Captured> answers = run_captured(questions, patience_s);
        for (std::size_t i = from; i < end; ++i) {
            const Captured& answer = answers[i - from];
            if (!answer.started)
                throw ConfigError(
                    "ranks on other hosts are started by `" + used +
                    "`, which is not here; install it (Debian: openssh-client), or name another "
                    "remote-start command with --agent");
            const std::string problem = launch::host_problem(
                {others[i], answer.in_time, answer.exit_code, answer.output}, used, program, version);
            if (!problem.empty()) problems += (problems.empty() ? "" : "\n  ") + problem;
        }
    }
    if (!problems.empty()) throw ConfigError("not started, for the hosts are not ready:\n  " + problems);
}

void become(const std::vector<std::string>& command) {
    std::signal(SIGXFSZ, SIG_DFL);  // main ignores it, which a new program would inherit
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    execvp(words[0], words.data());
    throw CommError(command[0] + " cannot be started: " + std::strerror(errno) +
                    "; install Open MPI (Debian: openmpi-bin), or load your site's module of it");
}

}  // namespace escalier::apps
