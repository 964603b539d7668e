// Short questions to other programs: what they print, within a time.
#pragma once

#include <string>
#include <vector>

namespace escalier::apps {

struct Captured {
    bool started = false;  // the program was found
    bool in_time = true;   // else it was killed
    int exit_code = 0;     // 128 + n after signal n
    std::string output;    // stdout and stderr, the first 64 KiB
};

// Runs all commands side by side, each a program (looked up in PATH) and its arguments, with nothing to read,
// and waits until the last one has ended or `seconds` have passed.
std::vector<Captured> run_captured(const std::vector<std::vector<std::string>>& commands, double seconds);

}  // namespace escalier::apps
