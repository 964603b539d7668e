#include <stdexcept>
#include <string>

#include "report/page.h"
#include "report/watch_text.h"
#include "scratch_folder.h"
#include "targets.h"

namespace escalier::fuzz {

void run_folder(std::string_view input) {
    static const ScratchFolder folder;
    folder.write("metrics.jsonl", input);
    folder.write("run.json", input.substr(0, input.find('\n')));
    folder.write("config.yaml", input);
    const report::RunFolder run = report::read_run_folder(folder.path());
    if (report::html_page(run).find("<script") != std::string::npos)
        throw std::logic_error("text of the run is markup of its page");
    for (const report::RunState state : {report::RunState::running, run.state})
        for (const std::string& line : report::watch_page("run", run.data, state, 1e9, 80))
            for (const char c : line)
                if (static_cast<unsigned char>(c) < 0x20)
                    throw std::logic_error("text of the run moves the terminal's cursor");
    report::watch_line(run.data);
    report::end_text(run.data, run.state);
}

}  // namespace escalier::fuzz
