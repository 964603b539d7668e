#include "config/problems.h"

#include <algorithm>

#include "core/error.h"

namespace escalier::config {

namespace {

// Beyond that the file is no job spec, and its reader has long stopped reading.
constexpr std::size_t most_messages = 100;

}  // namespace

void Problems::add(const std::string& place, const std::string& key, const std::string& what) {
    std::string message = place;
    if (!key.empty()) message += (message.empty() ? "" : ": ") + key;
    message += (message.empty() ? "" : ": ") + what;
    if (std::find(messages_.begin(), messages_.end(), message) != messages_.end()) return;
    messages_.push_back(message);
    if (messages_.size() == most_messages) throw_if_any();
}

bool Problems::doubted(const std::string& key) const {
    for (std::string path = key;; path.resize(path.rfind('.'))) {
        if (doubted_.count(path)) return true;
        if (path.find('.') == std::string::npos) return false;
    }
}

void Problems::throw_if_any() const {
    if (messages_.empty()) return;
    if (messages_.size() == 1) throw ConfigError(messages_[0]);
    std::string text = std::to_string(messages_.size()) + (messages_.size() == most_messages
                                                               ? " errors in the job spec, and maybe more"
                                                               : " errors in the job spec");
    for (const std::string& message : messages_) text += "\n  " + message;
    throw ConfigError(text);
}

}  // namespace escalier::config
