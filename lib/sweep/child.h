// A launched command, in a process group of its own, so that a Ctrl-C at the terminal reaches the sweep
// alone.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace escalier::sweep {

class Child {
 public:
    // Output is appended to `log`; there is no input. IoError (read, 66) if the command cannot be started.
    Child(const std::vector<std::string>& command, const std::string& log);
    ~Child();  // kills what is left of the group
    Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
    Child& operator=(Child&&) = delete;

    // Its exit code (128 + signal) once it has ended.
    std::optional<int> ended();
    void signal(int number) const;        // to the command
    void signal_group(int number) const;  // to all of its group

 private:
    pid_t pid_ = -1;  // -1: ended
};

}  // namespace escalier::sweep
