// From YAML to a JobSpec. Precedence: defaults < preset < file < --set. Every fault of the spec is reported
// at once, each as "file:line:column: key: what was found, what is wanted".
//
// Only rank 0 should read files and its environment: it loads, and broadcasts dump() of the result, which
// reads back to the same spec on the other ranks.
#pragma once

#include <string>
#include <vector>

#include "config/job_spec.h"
#include "config/problems.h"
#include "config/reader.h"
#include "config/yaml_file.h"

namespace escalier::config {

using JobFile = YamlFile;

// As read_yaml_file().
JobFile read_job_file(const std::string& path);

struct Job {
    JobSpec spec;
    Origins origins = {};
    std::string file = {};  // for messages
};

// ${NAME} from the environment of this process.
Environment process_environment();

// overrides: the arguments of --set. Throws ConfigError with every fault. `auto` values stay: see validate.h.
Job load(const JobFile& file, const std::vector<std::string>& overrides = {},
         const Environment& environment = process_environment());

// The same, leaving the faults in `problems`, so that rules of validate.h can be reported together with them.
Job load(const JobFile& file, const std::vector<std::string>& overrides, const Environment& environment,
         Problems& problems);

// The model section alone, as dump_model() writes it into weight files.
ModelConfig parse_model(const std::string& text, const std::string& file);

}  // namespace escalier::config
