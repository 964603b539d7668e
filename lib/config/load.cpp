#include "config/load.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "config/key_names.h"
#include "config/presets.h"
#include "core/error.h"

namespace escalier::config {

namespace {

constexpr std::size_t largest_job_file = std::size_t{1} << 20;

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

class Descriptor {
 public:
    explicit Descriptor(int number) : number_(number) {}
    ~Descriptor() {
        if (number_ >= 0) ::close(number_);
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int number() const { return number_; }

 private:
    int number_;
};

}  // namespace

JobFile read_job_file(const std::string& path) {
    const auto fail = [&] { throw IoError::read("job file " + path + ": " + std::strerror(errno)); };
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0)
        throw IoError::read("job file " + path + ": " + std::strerror(errno) +
                            "; give the path of a YAML job spec");
    if (S_ISDIR(info.st_mode))
        throw ConfigError("job file " + path + " is a folder; give the YAML file in it");
    // A pipe is opened without waiting for a writer, then read as long as it has one (process substitution).
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (file.number() < 0 || ::fcntl(file.number(), F_SETFL, 0) < 0) fail();
    std::string text(largest_job_file + 1, '\0');
    std::size_t size = 0;
    while (size < text.size()) {
        const ssize_t count = ::read(file.number(), text.data() + size, text.size() - size);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) fail();
        if (count == 0) break;
        size += static_cast<std::size_t>(count);
    }
    text.resize(size);
    if (text.empty() && S_ISFIFO(info.st_mode))
        throw IoError::read("job file " + path +
                            " is not a plain file but a pipe, and nothing writes to it; give the path of a "
                            "YAML job spec");
    if (text.size() > largest_job_file)
        throw ConfigError("job file " + path +
                          " is larger than 1 MiB: this is no job spec; give the YAML file");
    return {path, std::move(text)};
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
