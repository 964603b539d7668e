// Short ways to sweeps in tests.
#pragma once

#include <string>
#include <vector>

#include "config/validate.h"
#include "core/error.h"
#include "sweep/expand.h"

namespace escalier::sweep::testing {

inline const std::string job = R"(model: {preset: tiny}
train: {micro_batch: 1, global_batch: 8}
data: {train: [{path: data/tokens}]}
)";

inline std::optional<std::string> no_variable(const std::string&) {
    return std::nullopt;
}

inline Sweep expanded(const std::string& section, const std::vector<std::string>& sets = {},
                      std::optional<std::int64_t> ranks = std::nullopt) {
    return expand({{"jobs/study.yaml", job + "sweep: " + section + "\n"},
                   sets,
                   ranks,
                   no_variable,
                   config::any_schedule});
}

inline std::string refusal(const std::string& section, const std::vector<std::string>& sets = {}) {
    try {
        expanded(section, sets);
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "accepted";
}

inline std::vector<std::string> names(const Sweep& sweep) {
    std::vector<std::string> out;
    for (const Point& point : sweep.points) out.push_back(point.name);
    return out;
}

inline bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace escalier::sweep::testing
