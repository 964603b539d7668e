#include "unknown_command.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "core/edit_distance.h"
#include "core/text.h"

namespace escalier::apps {

std::string unknown_command(const CLI::App& app, int argc, char** argv) {
    const CLI::App* at = &app;
    for (int i = 1; i < argc; ++i) {
        const std::string_view word = argv[i];
        std::vector<std::string> known;
        for (const CLI::App* command : at->get_subcommands(nullptr)) known.push_back(command->get_name());
        if (known.empty() || word.starts_with('-')) return "";
        const auto same = std::find(known.begin(), known.end(), word);
        if (same != known.end()) {
            at = at->get_subcommand(*same);
            continue;
        }
        std::string guess = ".";
        for (int distance = 2; distance > 0; --distance)
            for (const std::string& name : known)
                if (is_within(distance, word, name)) guess = "; did you mean " + name + "?";
        return fmt::format("unknown command {}{} Commands of {}: {}", shortened(std::string(word)), guess,
                           at->get_name(), fmt::join(known, ", "));
    }
    return "";
}

}  // namespace escalier::apps
