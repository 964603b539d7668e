// Numbers on the command line follow the rules of the job spec: plain decimal, no octal, and a refusal says
// what was found and what is wanted.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "config/number_text.h"

namespace escalier::apps {

inline constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();

// The whole numbers from `min` to `max`.
inline CLI::Validator whole_number(std::int64_t min, std::int64_t max = no_limit) {
    const std::string range = max == no_limit ? "of at least " + std::to_string(min)
                                              : "from " + std::to_string(min) + " to " + std::to_string(max);
    const auto check = [=](std::string& text) -> std::string {
        std::int64_t value = 0;
        const char* end = text.data() + text.size();
        const auto parsed = std::from_chars(text.data(), end, value);
        const bool is_number = parsed.ec == std::errc{} && parsed.ptr == end;
        const bool octal = is_number && text.size() > 1 && text[text[0] == '-'] == '0';
        if (is_number && !octal && value >= min && value <= max) return "";
        return "found " + text + ", wanted a whole number " + range +
               (octal ? " (a leading zero would mean octal; write " + std::to_string(value) + ")"
                : parsed.ec == std::errc::result_out_of_range ? " (the number does not fit 64 bits)"
                                                              : "");
    };
    return CLI::Validator(check, range);
}

// The finite numbers from 0 to `max`.
inline CLI::Validator number_not_negative(double max = std::numeric_limits<double>::max()) {
    const bool open = max == std::numeric_limits<double>::max();
    const std::string range = open ? "of at least 0" : "from 0 to " + config::real_text(max);
    const auto check = [=](std::string& text) -> std::string {
        double value = 0.0;
        const char* end = text.data() + text.size();
        const auto parsed = std::from_chars(text.data(), end, value);
        if (parsed.ec == std::errc{} && parsed.ptr == end && value >= 0.0 && value <= max) return "";
        return "found " + text + ", wanted a number " + range;
    };
    return CLI::Validator(check, range);
}

// The numbers above 0, up to 1.
inline CLI::Validator share() {
    const auto check = [](std::string& text) -> std::string {
        double value = 0.0;
        const char* end = text.data() + text.size();
        const auto parsed = std::from_chars(text.data(), end, value);
        if (parsed.ec == std::errc{} && parsed.ptr == end && value > 0.0 && value <= 1.0) return "";
        return "found " + text + ", wanted a number above 0, at most 1";
    };
    return CLI::Validator(check, "above 0, at most 1");
}

}  // namespace escalier::apps
