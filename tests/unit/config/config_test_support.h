// Short ways to load specs in tests, and to see what a fault says.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/validate.h"
#include "core/error.h"

namespace escalier::config::testing {

using Sets = std::vector<std::string>;

inline Environment environment(std::map<std::string, std::string> variables = {}) {
    return [variables](const std::string& name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
    };
}

inline JobSpec loaded(const std::string& text, const Sets& sets = {}) {
    return load({"job.yaml", text}, sets, environment()).spec;
}

inline JobSpec resolved(const std::string& text, std::int64_t ranks, const Sets& sets = {}) {
    return load_resolved({"job.yaml", text}, sets, ranks, environment()).spec;
}

// The message of a refusal; fails by returning "accepted" when there is none.
template <class Action>
std::string message_of(Action&& action) {
    try {
        action();
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "accepted";
}

inline std::string load_fault(const std::string& text, const Sets& sets = {}) {
    return message_of([&] { loaded(text, sets); });
}

inline std::string fault(const std::string& text, std::int64_t ranks = 1, const Sets& sets = {}) {
    return message_of([&] { resolved(text, ranks, sets); });
}

inline int lines(const std::string& text) {
    int count = 1;
    for (char c : text) count += c == '\n';
    return count;
}

inline bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace escalier::config::testing
