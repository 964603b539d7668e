// What every group of rules over several keys needs: which keys to trust, and where to report.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "config/load.h"
#include "config/problems.h"

namespace escalier::config {

std::string text(std::int64_t value);
// "1, 2 or 4"
std::string join(const std::vector<std::int64_t>& values);
// "[1, 2, 4]"
std::string list(const std::vector<std::int64_t>& values);

class RuleBook {
 protected:
    using Keys = std::initializer_list<const char*>;

    RuleBook(Job& job, Problems& problems)
        : spec_(job.spec), origins_(job.origins), file_(job.file), problems_(problems) {}

    // Whether all keys hold what the user meant, so that a rule over them makes sense.
    bool sound(Keys keys) const;
    // keys: those that the rule compares; the first names the message, the first one that was given places
    // it.
    void report(Keys keys, const std::string& what);
    void refuse(Keys keys, const std::string& what);  // report, and doubt the first key
    void require(bool holds, Keys keys, const std::string& what);

    JobSpec& spec_;
    const Origins& origins_;
    const std::string& file_;
    Problems& problems_;
};

}  // namespace escalier::config
