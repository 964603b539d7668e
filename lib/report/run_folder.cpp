#include <algorithm>
#include <filesystem>

#include "checkpoint/run_folder.h"
#include "core/error.h"
#include "report/page.h"

namespace escalier::report {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t most_text = std::size_t{1} << 24;

std::string last_part(const std::string& path) {
    std::error_code error;
    const fs::path whole = fs::weakly_canonical(path, error);
    return error || whole.filename().empty() ? path : whole.filename().string();
}

}  // namespace

RunFolder read_run_folder(const std::string& path) {
    std::error_code error;
    if (!fs::is_directory(path, error))
        throw IoError::read(path +
                            " is no folder. Name a run's folder, run.dir/run.name, such as runs/quickstart.");
    RunFolder run;
    run.path = path;
    run.name = last_part(path);
    MetricsReader reader((fs::path(path) / "metrics.jsonl").string());
    run.state = look_at_run(path, reader, run.data).state;
    if (run.data.sessions.empty() && run.data.steps.empty())
        throw DataError(path +
                        "/metrics.jsonl holds no event of a run. Name a run's folder, run.dir/run.name.");
    const auto text = [&](const char* name) {
        return read_text((fs::path(path) / name).string(), most_text).value_or("");
    };
    run.facts = parsed(text("run.json"));
    if (!run.facts.is_object()) run.facts = nlohmann::json();
    run.config = text("config.yaml");
    run.picture = text("pipeline.svg");
    for (const checkpoint::CheckpointEntry& entry : checkpoint::list_checkpoints(path))
        if (entry.fault.empty()) run.checkpoints.push_back(fs::path(entry.directory).filename().string());
    for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
        const std::string name = entry.path().filename().string();
        if (name == "log.txt" || name == "metrics.jsonl" || name == "trace.json" || name == "pipeline.svg" ||
            name.starts_with("events.out.tfevents."))
            run.files.push_back(name);
    }
    std::sort(run.files.begin(), run.files.end());
    return run;
}

}  // namespace escalier::report
