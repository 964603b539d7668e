#include "schedule_costs.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "core/error.h"

namespace escalier::apps {
namespace {

double parse_number(const std::string& flag, const std::string& item, const std::string& text,
                    const std::string& wanted, double least, double most) {
    double value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() ||
        !(value >= least && value <= most))
        throw ConfigError(flag + ": `" + item + "` needs " + wanted);
    return value;
}

std::vector<std::string> parts(const std::string& text, char separator) {
    std::vector<std::string> result;
    std::size_t begin = 0;
    for (std::size_t end; (end = text.find(separator, begin)) != std::string::npos; begin = end + 1)
        result.push_back(text.substr(begin, end - begin));
    result.push_back(text.substr(begin));
    return result;
}

std::vector<double> parse_durations(const std::string& item, const std::string& text) {
    std::vector<double> values;
    for (const std::string& part : parts(text, ':'))
        values.push_back(
            parse_number("--cost", item, part,
                         "a duration from 0 to 1e9 after `=`, as in F=1, or one per stage, as in "
                         "F=1:2:1:1",
                         0, 1e9));
    return values;
}

std::vector<double> expanded(const char* name, const std::vector<double>& values, int stages, double share) {
    std::vector<double> result = values;
    if (values.size() == 1) result.assign(static_cast<std::size_t>(stages), values.front());
    if (result.size() != static_cast<std::size_t>(stages))
        throw ConfigError("--cost: " + std::string(name) + "= has " + std::to_string(values.size()) +
                          " values, the schedule has " + std::to_string(stages) +
                          " stages; give one for each, or one for all");
    for (double& value : result) value *= share;
    return result;
}

}  // namespace

bool Costs::per_stage() const {
    return forward.size() > 1 || input_gradient.size() > 1 || weight_gradient.size() > 1;
}

schedule::Durations Costs::durations(int stages, double share) const {
    schedule::Durations result{expanded("F", forward, stages, share),
                               expanded("I", input_gradient, stages, share),
                               expanded("W", weight_gradient, stages, share), transfer};
    result.pair_factor = pair_factor;
    return result;
}

Costs parse_costs(const std::string& text) {
    Costs costs;
    costs.text = text;
    std::vector<std::string> seen;
    for (const std::string& item : parts(text, ',')) {
        const std::string name = item.substr(0, item.find('='));
        if (item.find('=') == std::string::npos)
            throw ConfigError("--cost: `" + item + "` has no `=`; write for instance " + unit_costs);
        if (std::find(seen.begin(), seen.end(), name) != seen.end())
            throw ConfigError("--cost: `" + item + "` gives " + name + "= a second time; leave one out");
        seen.push_back(name);
        const std::string value = item.substr(name.size() + 1);
        if (name == "F")
            costs.forward = parse_durations(item, value);
        else if (name == "I")
            costs.input_gradient = parse_durations(item, value);
        else if (name == "W")
            costs.weight_gradient = parse_durations(item, value);
        else if (name == "comm")
            costs.transfer = parse_number("--cost", item, value,
                                          "one duration from 0 to 1e9 after `=`, as in comm=0.1", 0, 1e9);
        else if (name == "pair")
            costs.pair_factor =
                parse_number("--cost", item, value,
                             "a number from 0.5 to 1: what an overlapped pair takes of its two "
                             "actions' durations, as in pair=0.9",
                             0.5, 1);
        else
            throw ConfigError("--cost: `" + item +
                              "` is none of F=, I=, W=, comm=, pair=; write for instance " + unit_costs);
    }
    double sum = 0;
    for (const auto* values : {&costs.forward, &costs.input_gradient, &costs.weight_gradient})
        for (const double value : *values) sum += value;
    if (sum <= 0) throw ConfigError("--cost: F, I and W are all 0; at least one must take time");
    return costs;
}

std::vector<double> parse_memory(const std::string& text, int pp) {
    std::vector<double> limits;
    for (const std::string& part : parts(text, ':'))
        limits.push_back(
            parse_number("--memory", text, part,
                         "the most activations of one stage that a rank may keep, from 1, as in 4, "
                         "or one number per rank, as in 4:4:3:3",
                         1, 1e9));
    if (limits.size() == 1) limits.assign(static_cast<std::size_t>(pp), limits.front());
    if (limits.size() != static_cast<std::size_t>(pp))
        throw ConfigError("--memory: `" + text + "` has " + std::to_string(limits.size()) + " values for " +
                          std::to_string(pp) + " pipeline ranks; give one for each, or one for all");
    return limits;
}

}  // namespace escalier::apps
