#include "config/load.h"

#include <cstdlib>
#include <filesystem>

#include "config/key_names.h"
#include "config/presets.h"
#include "core/error.h"

namespace escalier::config {

namespace {

bool names_preset(const YAML::Node& document) {
    if (!document.IsMap()) return false;
    for (const auto& section : document) {
        if (!section.first.IsScalar() || section.first.Scalar() != "model" || !section.second.IsMap())
            continue;
        for (const auto& entry : section.second)
            if (entry.first.IsScalar() && entry.first.Scalar() == "preset") return true;
    }
    return false;
}

// The preset that the document (of `file`) and overrides ask for together. Faults are found again by the real
// pass.
std::string wanted_preset(const std::optional<YAML::Node>& document, const std::string& file,
                          const std::vector<std::string>& overrides, const Environment& environment,
                          Origins& origins) {
    JobSpec spec;
    Problems ignored;
    const FieldTable table = table_of(spec);
    Reader reader(table, environment, ignored, origins);
    if (document && names_preset(*document)) reader.read_document(*document, {file});
    for (const std::string& assignment : overrides)
        if (assignment.compare(0, 5, "model") == 0) reader.read_override(assignment);
    return spec.model.preset;
}

void read_preset(const std::string& name, const std::string& place, Reader& reader, Problems& problems) {
    const std::string_view text = preset_text(name);
    if (!text.empty()) {
        reader.set_origin("preset " + name);
        reader.read_text(std::string(text), {"configs/presets/" + name + ".yaml"});
        reader.set_origin("");
        return;
    }
    std::string list;
    for (const std::string& preset : preset_names()) list += (list.empty() ? "" : ", ") + preset;
    const std::string hint = choice_hint(name, preset_names());
    problems.add(place, "model.preset",
                 "found " + name + ", wanted one of " + list + (hint.empty() ? "" : " (" + hint + ")"));
    problems.doubt("model");
}

}  // namespace

JobFile read_job_file(const std::string& path) {
    return read_yaml_file(path, job_file_kind);
}

Environment process_environment() {
    return [](const std::string& name) -> std::optional<std::string> {
        const char* value = std::getenv(name.c_str());
        return value ? std::optional<std::string>(value) : std::nullopt;
    };
}

Job load(const JobFile& file, const std::vector<std::string>& overrides, const Environment& environment,
         Problems& problems) {
    Job job;
    job.file = file.path;
    const FieldTable table = table_of(job.spec);
    Reader reader(table, environment, problems, job.origins);

    const std::optional<YAML::Node> document = parse_yaml(file.text, {file.path}, problems);
    Origins first_origins;
    const std::string preset = wanted_preset(document, file.path, overrides, environment, first_origins);
    if (!preset.empty()) read_preset(preset, first_origins["model.preset"], reader, problems);
    if (!document || !reader.read_document(*document, {file.path})) problems.doubt("model");
    for (const std::string& assignment : overrides) reader.read_override(assignment);

    if (job.spec.run.name == "auto" && !problems.doubted("run.name")) {
        job.spec.run.name = std::filesystem::path(file.path).stem().string();
        job.origins["run.name"] = "derived from auto";
    }
    return job;
}

Job load(const JobFile& file, const std::vector<std::string>& overrides, const Environment& environment) {
    Problems problems;
    Job job = load(file, overrides, environment, problems);
    problems.throw_if_any();
    return job;
}

ModelConfig parse_model(const std::string& text, const std::string& file) {
    ModelConfig model;
    FieldTable table;
    table.section("model", model, "");
    Problems problems;
    Origins origins;
    const Environment nothing = [](const std::string&) { return std::nullopt; };
    Reader(table, nothing, problems, origins).read_text(text, {file});
    problems.throw_if_any();
    return model;
}

}  // namespace escalier::config
