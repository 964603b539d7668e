#include "sweep/point_name.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>

namespace escalier::sweep {

namespace {

constexpr std::size_t longest_value = 32, longest_name = 160;

std::string hash(const std::string& text) {
    char digits[16];
    std::snprintf(digits, sizeof digits, "%08x",
                  static_cast<unsigned>(XXH3_64bits(text.data(), text.size()) & 0xffffffffu));
    return digits;
}

// Letters, digits and what file systems, shells and pictures take as it is.
bool is_plain(const std::string& text) {
    return text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+-_") ==
           std::string::npos;
}

// "[3, 3]" -> "3-3"
std::string without_brackets(const std::string& value) {
    if (value.size() < 2 || value.front() != '[' || value.back() != ']') return value;
    std::string out;
    for (const char c : value.substr(1, value.size() - 2))
        if (c != ' ') out += c == ',' ? '-' : c;
    return out;
}

std::string value_name(const std::string& value) {
    const std::string name = without_brackets(value);
    if (is_plain(name) && name.size() <= longest_value) return name;
    return hash(value);
}

std::string leaf(const std::string& key) {
    return key.substr(key.rfind('.') + 1);
}

}  // namespace

std::string point_name(const std::vector<config::SweepSetting>& settings) {
    std::string name;
    for (const config::SweepSetting& setting : settings) {
        const auto ends_alike = [&](const config::SweepSetting& other) {
            return other.key != setting.key && leaf(other.key) == leaf(setting.key);
        };
        const bool alone = std::none_of(settings.begin(), settings.end(), ends_alike);
        name += (name.empty() ? "" : "_") + (alone ? leaf(setting.key) : setting.key) + "-" +
                value_name(setting.value);
    }
    if (name.size() <= longest_name) return name;
    return name.substr(0, longest_name - 9) + "-" + hash(name);
}

}  // namespace escalier::sweep
