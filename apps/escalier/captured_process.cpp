#include "captured_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "core/clock.h"

namespace escalier::apps {

namespace {

constexpr std::size_t most_output = 64 << 10;

struct Running {
    pid_t pid = -1;
    int output = -1;  // the end of a pipe, until all writers have closed theirs
};

Running start(const std::vector<std::string>& command) {
    Running process;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return process;
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, ends[1], 1);
    posix_spawn_file_actions_adddup2(&files, ends[1], 2);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);  // so that its children end with it
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    if (posix_spawnp(&process.pid, words[0], &files, &attributes, words.data(), environ) != 0)
        process.pid = -1;
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    close(ends[1]);
    if (process.pid > 0)
        process.output = ends[0];
    else
        close(ends[0]);
    return process;
}

// Takes what is there; closes the pipe at its end.
void read_some(Running& process, std::string& output) {
    char bytes[4096];
    const ssize_t count = read(process.output, bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) return;
    if (count <= 0) {
        close(process.output);
        process.output = -1;
        return;
    }
    output.append(bytes, std::min(static_cast<std::size_t>(count), most_output - output.size()));
}

void end(Running& process, Captured& captured) {
    if (process.output >= 0) {
        captured.in_time = false;
        kill(-process.pid, SIGKILL);
        close(process.output);
    }
    int status = 0;
    while (waitpid(process.pid, &status, 0) < 0 && errno == EINTR) {
    }
    captured.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

std::vector<Captured> run_captured(const std::vector<std::vector<std::string>>& commands, double seconds) {
    std::vector<Running> processes;
    std::vector<Captured> captured(commands.size());
    for (std::size_t i = 0; i < commands.size(); ++i) {
        processes.push_back(start(commands[i]));
        captured[i].started = processes[i].pid > 0;
    }
    const double deadline = now_seconds() + seconds;
    while (true) {
        std::vector<pollfd> open;
        std::vector<std::size_t> whose;
        for (std::size_t i = 0; i < processes.size(); ++i) {
            if (processes[i].output < 0) continue;
            open.push_back({processes[i].output, POLLIN, 0});
            whose.push_back(i);
        }
        const double left = deadline - now_seconds();
        if (open.empty() || left <= 0) break;
        if (poll(open.data(), open.size(), static_cast<int>(1000 * left) + 1) <= 0) continue;
        for (std::size_t k = 0; k < open.size(); ++k)
            if (open[k].revents) read_some(processes[whose[k]], captured[whose[k]].output);
    }
    for (std::size_t i = 0; i < processes.size(); ++i)
        if (captured[i].started) end(processes[i], captured[i]);
    return captured;
}

}  // namespace escalier::apps
