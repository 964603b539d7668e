// Pieces of HTML and SVG.
#pragma once

#include <string>
#include <string_view>

namespace escalier::report {

// Text for an element or a quoted attribute: nothing in it is markup any more.
inline std::string escaped(std::string_view text) {
    std::string result;
    result.reserve(text.size());
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '&')
            result += "&amp;";
        else if (c == '<')
            result += "&lt;";
        else if (c == '>')
            result += "&gt;";
        else if (c == '"')
            result += "&quot;";
        else if (c == '\'')
            result += "&#39;";
        else if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f)
            result += '?';
        else
            result += c;
    }
    return result;
}

std::string base64(std::string_view bytes);

}  // namespace escalier::report
