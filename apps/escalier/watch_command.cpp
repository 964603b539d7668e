#include "watch_command.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/clock.h"
#include "core/error.h"
#include "report/watch_text.h"

namespace escalier::apps {

namespace {

struct WatchArguments {
    std::string run;
    bool once = false;
    double interval_s = 1;
};

// 0: not a terminal.
std::size_t terminal_columns() {
    winsize size{};
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
    return size.ws_col;
}

class Watch {
 public:
    explicit Watch(const WatchArguments& arguments)
        : arguments_(arguments), reader_((std::filesystem::path(arguments.run) / "metrics.jsonl").string()) {
        std::error_code error;
        const std::filesystem::path whole = std::filesystem::weakly_canonical(arguments.run, error);
        name_ = error || whole.filename().empty() ? arguments.run : whole.filename().string();
    }

    int run() {
        for (;;) {
            const auto [state, news] = report::look_at_run(arguments_.run, reader_, data_);
            show(state, news);
            if (arguments_.once) return 0;
            if (state != report::RunState::running) {
                std::cout << report::end_text(data_, state) << std::endl;
                return state == report::RunState::dead ? static_cast<int>(ExitCode::failed)
                                                       : data_.end->exit_code;
            }
            std::this_thread::sleep_for(std::chrono::duration<double>(arguments_.interval_s));
        }
    }

 private:
    // In place on a terminal; elsewhere a line whenever there is something new.
    void show(report::RunState state, bool news) {
        const std::size_t columns = terminal_columns();
        if (columns == 0 && !arguments_.once) {
            if (news) std::cout << report::watch_line(data_) << std::endl;
            return;
        }
        for (; shown_ > 0; --shown_) std::cout << "\033[A\r\033[K";
        for (const std::string& line :
             report::watch_page(name_, data_, state, unix_seconds(), columns == 0 ? 1000 : columns - 1)) {
            std::cout << line << '\n';
            shown_ += columns > 0;
        }
        std::cout << std::flush;
    }

    const WatchArguments& arguments_;
    report::MetricsReader reader_;
    report::RunData data_;
    std::string name_;
    std::size_t shown_ = 0;  // lines of the last page that the next one replaces
};

}  // namespace

void add_watch_command(CLI::App& app, std::function<int()>& action) {
    auto arguments = std::make_shared<WatchArguments>();
    CLI::App* command = app.add_subcommand(
        "watch", "Follow a run from another terminal; ends with the run, and with its exit code");
    command->add_option("run", arguments->run, "Run folder, run.dir/run.name")->required();
    command->add_flag("--once", arguments->once, "Show how far it is, and end");
    command->add_option("--interval", arguments->interval_s, "Seconds between looks")
        ->check(CLI::Range(0.05, 3600.0));
    command->callback([arguments, &action] { action = [arguments] { return Watch(*arguments).run(); }; });
}

}  // namespace escalier::apps
