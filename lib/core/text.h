// Numbers and foreign text as people read them.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace escalier {

// 1234567 -> "1,234,567"
inline std::string grouped(std::int64_t value) {
    std::string digits = std::to_string(value);
    const std::ptrdiff_t first = value < 0 ? 1 : 0;
    for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > first; at -= 3)
        digits.insert(static_cast<std::size_t>(at), ",");
    return digits;
}

// 1572864 -> "1.5 MiB"
inline std::string bytes_text(double bytes) {
    const char* unit = "B";
    for (const char* larger : {"KiB", "MiB", "GiB", "TiB"}) {
        if (bytes < 1024) break;
        bytes /= 1024;
        unit = larger;
    }
    char text[32];
    std::snprintf(text, sizeof text, unit[0] == 'B' ? "%.0f %s" : "%.1f %s", bytes, unit);
    return text;
}

// 0.33333 -> "33.3 %"
inline std::string percent(double share) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
    return text;
}

// Text from a file for a message: `most` bytes of it, what is not printable ASCII as '?'.
inline std::string shortened(std::string_view text, std::size_t most = 40) {
    std::string shown(text.substr(0, most));
    for (char& c : shown)
        if (c < ' ' || c > '~') c = '?';
    return text.size() > most ? shown + "..." : shown;
}

}  // namespace escalier
