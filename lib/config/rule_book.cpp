#include "config/rule_book.h"

#include <algorithm>

namespace escalier::config {

std::string text(std::int64_t value) {
    return std::to_string(value);
}

std::string join(const std::vector<std::int64_t>& values) {
    std::string out;
    for (std::size_t i = 0; i < values.size(); ++i)
        out += (i == 0 ? "" : i + 1 == values.size() ? " or " : ", ") + text(values[i]);
    return out;
}

std::string list(const std::vector<std::int64_t>& values) {
    std::string out;
    for (std::int64_t value : values) out += (out.empty() ? "[" : ", ") + text(value);
    return out + "]";
}

bool RuleBook::sound(Keys keys) const {
    return std::none_of(keys.begin(), keys.end(), [&](const char* key) { return problems_.doubted(key); });
}

void RuleBook::report(Keys keys, const std::string& what) {
    std::string place = file_;
    for (const char* key : keys) {
        const auto origin = origins_.find(key);
        if (origin == origins_.end() || origin->second.rfind("derived", 0) == 0) continue;
        if (place == file_ || place.rfind("preset", 0) == 0) place = origin->second;
    }
    problems_.add(place, *keys.begin(), what);
}

void RuleBook::refuse(Keys keys, const std::string& what) {
    report(keys, what);
    problems_.doubt(*keys.begin());
}

void RuleBook::require(bool holds, Keys keys, const std::string& what) {
    if (!holds && sound(keys)) refuse(keys, what);
}

}  // namespace escalier::config
