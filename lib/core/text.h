// Numbers as people read them.
#pragma once

#include <cstdint>
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

}  // namespace escalier
