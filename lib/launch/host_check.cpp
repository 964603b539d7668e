#include "launch/host_check.h"

#include <sstream>

#include "launch/command.h"

namespace escalier::launch {

namespace {

constexpr const char* reached = "escalier-launch: reached";
constexpr const char* has_orted = "escalier-launch: orted";
constexpr const char* has_program = "escalier-launch: program";

// The last line that says something; agents print banners first.
std::string last_line(const std::string& text) {
    std::istringstream lines(text);
    std::string last;
    for (std::string line; std::getline(lines, line);)
        if (line.find_first_not_of(" \t\r") != std::string::npos) last = line;
    return last.substr(0, 200);
}

}  // namespace

std::string host_question(const std::string& program) {
    // orted, which mpirun starts there, does not tell its version.
    return std::string("echo ") + reached + "; if command -v orted >/dev/null; then echo " + has_orted +
           "; fi; if [ -x " + shell_text({program}) + " ]; then echo " + has_program +
           "; fi; mpirun --version 2>/dev/null";
}

std::string host_problem(const HostAnswer& answer, const std::string& agent, const std::string& program,
                         const std::string& mpi_version) {
    const std::string where = "host " + answer.host + ": ";
    if (answer.output.find(reached) == std::string::npos) {
        if (!answer.in_time)
            return where + "no answer; `" + agent + " " + answer.host +
                   " true` must end at once, without asking anything. Take the host out, or mend the way to "
                   "it";
        const std::string words = last_line(answer.output);
        return where + "it cannot be reached: `" + agent + " " + answer.host + "` ended with " +
               std::to_string(answer.exit_code) + (words.empty() ? "" : ": " + words) +
               ". Logging in must work without a password; --agent names another remote-start command";
    }
    if (answer.output.find(has_orted) == std::string::npos)
        return where + "Open MPI's orted is not in PATH of a shell there. Install Open MPI " + mpi_version +
               " (Debian: openmpi-bin), or set PATH where shells without a terminal read it";
    const std::string version = open_mpi_version(answer.output);
    if (!version.empty() && !mpi_version.empty() && version != mpi_version)
        return where + "Open MPI " + version + " is installed there and " + mpi_version +
               " here; ranks of one job need the same one";
    if (answer.output.find(has_program) == std::string::npos)
        return where + "there is no program " + program +
               "; put it into a folder that all hosts share, or at the same place on each (--escalier)";
    return "";
}

std::string open_mpi_version(const std::string& text) {
    const std::string name = "(Open MPI) ";
    const std::size_t at = text.find(name);
    if (at == std::string::npos) return "";
    const std::size_t start = at + name.size();
    return text.substr(start, text.find_first_of(" \r\n", start) - start);
}

}  // namespace escalier::launch
