// The report of a run: one HTML file that needs nothing beside it.
#pragma once

#include <string>
#include <vector>

#include "report/run_data.h"

namespace escalier::report {

// What a run folder holds, in memory.
struct RunFolder {
    std::string path;  // as the reader named it
    std::string name;  // its last part
    RunData data;
    RunState state = RunState::dead;
    nlohmann::json facts;                  // run.json; null where it is missing or no JSON
    std::string config;                    // config.yaml
    std::string picture;                   // pipeline.svg
    std::vector<std::string> checkpoints;  // folders of whole ones that are there, by step
    std::vector<std::string> files;        // others that are worth opening
};

// Throws IoError (66) naming the folder or file that is not there, and DataError where nothing in
// metrics.jsonl was written by a run.
RunFolder read_run_folder(const std::string& path);

std::string html_page(const RunFolder& run);

}  // namespace escalier::report
