// What rank 0 shows on stdout: kept lines, and on a terminal one status line in place below them.
#pragma once

#include <chrono>
#include <fstream>
#include <string>

namespace escalier::train {

// Whether stdout ends on a terminal. Under mpirun every rank's stdout is a pseudo-terminal of mpirun's, so
// there it is mpirun's own stdout that counts.
bool stdout_is_terminal();

class Console {
 public:
    // log: gets every line as well, without the status line; may be null. log_path is for messages: a log
    // that cannot be written is an IoError (write).
    Console(bool terminal, std::ofstream* log, std::string log_path);
    ~Console();

    bool terminal() const { return terminal_; }
    void line(const std::string& text);      // kept, on stdout and in the log
    void log_line(const std::string& text);  // in the log; on stdout too unless it is a terminal
    void status(const std::string& text);    // terminal only, replaced by the next; at most 10 a second

 private:
    void clear_status();
    void to_log(const std::string& text);

    bool terminal_;
    std::ofstream* log_;
    std::string log_path_;
    bool status_shown_ = false;
    std::chrono::steady_clock::time_point last_status_{};
};

}  // namespace escalier::train
