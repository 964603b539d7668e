// How a launch of a point ended, kept beside its log.
#pragma once

#include <optional>
#include <string>

namespace escalier::sweep {

struct Outcome {
    int exit_code = 0;    // 128 + the signal that ended it
    std::string message;  // the last words, where it failed
    double seconds = 0;
    std::string command;
};

std::string to_json(const Outcome& outcome);
// Nothing where there is no such file, or it is none of ours.
std::optional<Outcome> read_outcome(const std::string& path);

// What a failed run says in what it printed: its last message "escalier: …", else its last line; one line, of
// bounded length.
std::string last_message(const std::string& output);

}  // namespace escalier::sweep
