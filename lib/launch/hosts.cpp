#include "launch/hosts.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "core/error.h"
#include "core/text.h"

namespace escalier::launch {

namespace {

constexpr std::int64_t most_slots = 1'000'000;

bool is_name(const std::string& text) {
    const auto allowed = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
               c == '-' || c == '_';
    };
    return !text.empty() && text[0] != '-' && std::all_of(text.begin(), text.end(), allowed);
}

// 0 if `text` is no number of ranks.
std::int64_t slots_of(const std::string& text) {
    std::int64_t value = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = problem == std::errc{} && end == text.data() + text.size();
    return whole && value >= 1 && value <= most_slots ? value : 0;
}

void add(std::vector<Host>& hosts, const std::string& name, std::int64_t slots) {
    const auto known =
        std::find_if(hosts.begin(), hosts.end(), [&](const Host& host) { return host.name == name; });
    if (known == hosts.end())
        hosts.push_back({name, slots});
    else
        known->slots += slots;
}

}  // namespace

std::vector<Host> parse_host_list(const std::string& text) {
    std::vector<Host> hosts;
    std::istringstream parts(text + ",");
    for (std::string part; std::getline(parts, part, ',');) {
        const std::size_t colon = part.find(':');
        const std::string name = part.substr(0, colon);
        const std::int64_t slots = colon == std::string::npos ? 1 : slots_of(part.substr(colon + 1));
        if (!is_name(name) || slots == 0)
            throw ConfigError("--hosts: found \"" + shortened(part) +
                              "\", wanted NAME or NAME:RANKS, such as --hosts node1:4,node2:4");
        add(hosts, name, slots);
    }
    return hosts;
}

std::vector<Host> parse_host_file(const std::string& text, const std::string& path) {
    std::vector<Host> hosts;
    std::istringstream lines(text);
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
        ++number;
        std::istringstream words(line.substr(0, line.find('#')));
        std::string name;
        if (!(words >> name)) continue;
        std::int64_t slots = 0;
        bool sound = is_name(name);
        for (std::string word; words >> word;) {
            if (word.starts_with("slots="))
                slots = slots_of(word.substr(6));
            else
                sound = sound && (word.starts_with("max_slots=") || word.starts_with("max-slots="));
        }
        if (!sound || slots == 0)
            throw ConfigError("--hostfile " + path + ":" + std::to_string(number) + ": found \"" +
                              shortened(line) + "\", wanted a line such as node1 slots=4");
        add(hosts, name, slots);
    }
    if (hosts.empty())
        throw ConfigError("--hostfile " + path + " names no host; wanted lines such as node1 slots=4");
    return hosts;
}

std::int64_t total_slots(const std::vector<Host>& hosts) {
    std::int64_t slots = 0;
    for (const Host& host : hosts) slots += host.slots;
    return slots;
}

bool tensor_group_spans_hosts(const std::vector<Host>& hosts, std::int64_t tp, std::int64_t ranks) {
    std::int64_t end = 0;  // of the ranks on the hosts so far
    for (const Host& host : hosts) {
        end += host.slots;
        if (end >= ranks) return false;
        if (end % tp != 0) return true;
    }
    return false;
}

}  // namespace escalier::launch
