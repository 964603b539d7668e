// The text of a YAML file that a user names.
#pragma once

#include <string>

namespace escalier::config {

struct YamlFile {
    std::string path;
    std::string text;
};

// What messages call a file, and what the user was to give.
struct FileKind {
    const char* noun;
    const char* wanted;
};
inline constexpr FileKind job_file_kind = {"job file", "YAML job spec"};
inline constexpr FileKind profile_kind = {"profile", "profile that escalier plan --measure wrote"};
inline constexpr FileKind hardware_kind = {"hardware file",
                                           "file with the keys of configs/hardware/h100.yaml"};

// IoError (66) for a file that is not there or not readable; ConfigError (2) for a folder or a file too large
// to be of its kind.
YamlFile read_yaml_file(const std::string& path, const FileKind& kind);

}  // namespace escalier::config
