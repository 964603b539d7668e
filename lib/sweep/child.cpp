#include "sweep/child.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"

extern char** environ;

namespace escalier::sweep {

namespace {

class SpawnSettings {
 public:
    explicit SpawnSettings(const std::string& log) {
        posix_spawn_file_actions_init(&files);
        posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                         0644);
        posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
        posix_spawnattr_init(&attributes);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
        posix_spawnattr_setpgroup(&attributes, 0);
        sigset_t none;
        sigemptyset(&none);
        posix_spawnattr_setsigmask(&attributes, &none);
    }
    ~SpawnSettings() {
        posix_spawn_file_actions_destroy(&files);
        posix_spawnattr_destroy(&attributes);
    }
    SpawnSettings(const SpawnSettings&) = delete;
    SpawnSettings& operator=(const SpawnSettings&) = delete;

    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
};

}  // namespace

Child::Child(const std::vector<std::string>& command, const std::string& log) {
    const SpawnSettings settings(log);
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    const int error =
        ::posix_spawnp(&pid_, words[0], &settings.files, &settings.attributes, words.data(), environ);
    if (error == 0) return;
    pid_ = -1;
    throw IoError::read(command[0] + " cannot be started: " + std::strerror(error));
}

Child::~Child() {
    if (pid_ < 0) return;
    signal_group(SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
}

std::optional<int> Child::ended() {
    int status = 0;
    const pid_t result = ::waitpid(pid_, &status, WNOHANG);
    const bool lost = result < 0 && errno == ECHILD;  // somebody else has waited for it
    if (result != pid_ && !lost) return std::nullopt;
    pid_ = -1;
    if (lost) return static_cast<int>(ExitCode::failed);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void Child::signal(int number) const {
    if (pid_ > 0) ::kill(pid_, number);
}

void Child::signal_group(int number) const {
    if (pid_ > 0) ::kill(-pid_, number);
}

}  // namespace escalier::sweep
