#include "checkpoint/strict_json.h"

#include <set>
#include <vector>

#include "core/text.h"

namespace escalier::checkpoint {

nlohmann::json parse_strict_json(std::string_view text) {
    using nlohmann::json;
    constexpr int most_nesting = 64;
    // nlohmann keeps the last of two equal keys without a word, so keys are watched while parsing.
    std::vector<std::set<std::string>> keys;
    const auto watch = [&](int depth, json::parse_event_t event, json& value) {
        const bool opens =
            event == json::parse_event_t::object_start || event == json::parse_event_t::array_start;
        if (opens && depth >= most_nesting)
            throw JsonFault("is nested more than " + std::to_string(most_nesting) + " deep");
        if (event == json::parse_event_t::object_start) keys.emplace_back();
        if (event == json::parse_event_t::object_end) keys.pop_back();
        if (event == json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second)
            throw JsonFault("names '" + shortened(value.get_ref<const std::string&>()) + "' twice");
        return true;
    };
    try {
        return json::parse(text, watch);
    } catch (const json::exception& error) {
        // What it read last, which nlohmann quotes at the end, may be as long as the text.
        const std::string fault = error.what();
        throw JsonFault("is not valid JSON (" + shortened(fault.substr(0, fault.find("; last read")), 200) +
                        ")");
    }
}

}  // namespace escalier::checkpoint
