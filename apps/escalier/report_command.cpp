#include "report_command.h"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>

#include "core/error.h"
#include "core/write_target.h"
#include "report/page.h"

namespace escalier::apps {

namespace {

struct ReportArguments {
    std::string run;
    std::string out;  // empty: report.html in the run's folder
};

int run(const ReportArguments& arguments) {
    const std::string page = report::html_page(report::read_run_folder(arguments.run));
    const std::string path =
        write_target(arguments.out.empty() ? (std::filesystem::path(arguments.run) / "report.html").string()
                                           : arguments.out);
    const std::string part = path + ".part";
    std::ofstream file(part, std::ios::trunc | std::ios::binary);
    file << page << std::flush;
    std::error_code error;
    if (!file) error = {errno, std::generic_category()};
    file.close();
    if (!error) std::filesystem::rename(part, path, error);
    if (error)
        throw IoError::write(path + " cannot be written: " + error.message() +
                             ". Name another file with --out.");
    std::cout << path << '\n';
    return 0;
}

}  // namespace

void add_report_command(CLI::App& app, std::function<int()>& action) {
    auto arguments = std::make_shared<ReportArguments>();
    CLI::App* command = app.add_subcommand("report", "One HTML page of all that a run folder tells");
    command->add_option("run", arguments->run, "Run folder, run.dir/run.name")->required();
    command->add_option("--out", arguments->out, "File to write; by default report.html in the run folder");
    command->callback([arguments, &action] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace escalier::apps
