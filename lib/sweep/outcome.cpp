#include "sweep/outcome.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

namespace escalier::sweep {

namespace {

constexpr std::size_t longest_message = 600;

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
        while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
        lines.push_back(line);
    }
    return lines;
}

std::string bounded(std::string text) {
    for (char& c : text)
        if (static_cast<unsigned char>(c) < ' ') c = ' ';
    if (text.size() > longest_message) text = text.substr(0, longest_message - 3) + "...";
    return text;
}

}  // namespace

std::string to_json(const Outcome& outcome) {
    const nlohmann::ordered_json object = {{"exit_code", outcome.exit_code},
                                           {"message", outcome.message},
                                           {"seconds", outcome.seconds},
                                           {"command", outcome.command}};
    return object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::optional<Outcome> read_outcome(const std::string& path) {
    std::ifstream file(path);
    if (!file) return std::nullopt;
    const nlohmann::json object = nlohmann::json::parse(file, nullptr, false);
    if (!object.is_object()) return std::nullopt;
    try {
        return Outcome{object.at("exit_code").get<int>(), object.at("message").get<std::string>(),
                       object.at("seconds").get<double>(), object.at("command").get<std::string>()};
    } catch (const nlohmann::json::exception&) {
        return std::nullopt;
    }
}

std::string last_message(const std::string& output) {
    const std::vector<std::string> lines = lines_of(output);
    const std::string ours = "escalier: ";
    for (std::size_t i = lines.size(); i-- > 0;) {
        if (lines[i].compare(0, ours.size(), ours) != 0) continue;
        std::string message = lines[i].substr(ours.size());
        for (std::size_t more = i + 1; more < lines.size() && lines[more].compare(0, 2, "  ") == 0; ++more)
            message += "; " + lines[more].substr(2);
        return bounded(message);
    }
    for (std::size_t i = lines.size(); i-- > 0;)
        if (lines[i].find_first_not_of("- ") != std::string::npos) return bounded(lines[i]);
    return "";
}

}  // namespace escalier::sweep
