// How often each value stands in a list.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace escalier::apps {

// "2 x62, 1 x2", larger values first; a value that stands there alone has no count. name(value) is its text.
template <class Value, class Name>
std::string counted_text(const std::vector<Value>& values, const Name& name) {
    std::map<Value, int> counts;
    for (const Value& value : values) ++counts[value];
    if (counts.size() == 1) return name(values.front());
    std::string text;
    for (auto it = counts.rbegin(); it != counts.rend(); ++it)
        text += (text.empty() ? "" : ", ") + name(it->first) + " x" + std::to_string(it->second);
    return text;
}

}  // namespace escalier::apps
