// Numbers as people read them.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace escalier {

// 1234567 -> "1,234,567"
inline std::string grouped(std::int64_t value) {
    std::string digits = std::to_string(value);
    const std::ptrdiff_t first = value < 0 ? 1 : 0;
    for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > first; at -= 3)
        digits.insert(static_cast<std::size_t>(at), ",");
    return digits;
}

// 0.33333 -> "33.3 %"
inline std::string percent(double share) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
    return text;
}

}  // namespace escalier
