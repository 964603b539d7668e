#include "train/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <climits>
#include <fstream>
#include <iostream>
#include <utility>

#include "train/run_directory.h"

namespace escalier::train {

namespace {

std::string read_first_line(const std::string& path) {
    std::ifstream in(path);
    std::string line;
    std::getline(in, line);
    return line;
}

std::string link_target(const std::string& path) {
    char target[PATH_MAX];
    const ssize_t length = readlink(path.c_str(), target, sizeof target);
    return length > 0 ? std::string(target, static_cast<std::size_t>(length)) : std::string();
}

}  // namespace

bool stdout_is_terminal() {
    const std::string parent = "/proc/" + std::to_string(getppid());
    const std::string name = read_first_line(parent + "/comm");
    if (name == "mpirun" || name == "orterun" || name == "mpiexec")
        return link_target(parent + "/fd/1").starts_with("/dev/pts/");
    winsize size{};
    return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
}

Console::Console(bool terminal, std::ofstream* log, std::string log_path)
    : terminal_(terminal), log_(log), log_path_(std::move(log_path)) {}

Console::~Console() {
    clear_status();
}

void Console::clear_status() {
    if (!status_shown_) return;
    std::cout << "\r\033[K" << std::flush;
    status_shown_ = false;
}

void Console::line(const std::string& text) {
    clear_status();
    std::cout << text << std::endl;
    to_log(text);
}

void Console::to_log(const std::string& text) {
    if (!log_) return;
    *log_ << text << std::endl;
    require_written(*log_, log_path_);
}

void Console::log_line(const std::string& text) {
    if (!terminal_) return line(text);
    to_log(text);
}

void Console::status(const std::string& text) {
    const auto now = std::chrono::steady_clock::now();
    if (!terminal_ || now - last_status_ < std::chrono::milliseconds(100)) return;
    last_status_ = now;
    std::cout << "\r\033[K" << text << std::flush;
    status_shown_ = true;
}

}  // namespace escalier::train
