// Collects everything that is wrong with a job spec, so that the user sees all of it at once.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace escalier::config {

class Problems {
 public:
    // place: "job.yaml:3:9", "--set a.b=c", or empty; key: its path, or empty. Throws once there are more
    // than anybody reads.
    void add(const std::string& place, const std::string& key, const std::string& what);
    // The value of `key` (or of all keys of a section) is not what the user meant: no further rule should
    // judge it.
    void doubt(const std::string& key) { doubted_.insert(key); }
    bool doubted(const std::string& key) const;

    bool empty() const { return messages_.empty(); }
    const std::vector<std::string>& messages() const { return messages_; }
    // Throws ConfigError with every message, one a line.
    void throw_if_any() const;

 private:
    std::vector<std::string> messages_;
    std::set<std::string> doubted_;
};

}  // namespace escalier::config
