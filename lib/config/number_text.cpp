#include "config/number_text.h"

#include <array>
#include <charconv>

namespace escalier::config {

std::string real_text(double value) {
    std::array<char, 64> buffer{};
    const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
    std::string text(buffer.data(), result.ptr);
    if (text.find('.') == std::string::npos && std::isfinite(value))
        text.insert(std::min(text.find('e'), text.size()), ".0");
    return text;
}

}  // namespace escalier::config
