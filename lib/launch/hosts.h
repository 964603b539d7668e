// The hosts that mpirun is to start ranks on: a list as its --host takes it, or a host file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace escalier::launch {

struct Host {
    std::string name;
    std::int64_t slots = 1;  // ranks that it takes

    bool operator==(const Host&) const = default;
};

// "a:4,b:4", without a number one rank; a host named twice takes the sum. ConfigError names the part that is
// no host.
std::vector<Host> parse_host_list(const std::string& text);

// Lines "a slots=4"; '#' starts a comment. The number must be there: without one mpirun takes the host's
// cores, which nobody here knows. ConfigError names file and line.
std::vector<Host> parse_host_file(const std::string& text, const std::string& path);

std::int64_t total_slots(const std::vector<Host>& hosts);

// Whether ranks, tp of them to a tensor group, put one group on two hosts when they fill the hosts in order.
bool tensor_group_spans_hosts(const std::vector<Host>& hosts, std::int64_t tp, std::int64_t ranks);

}  // namespace escalier::launch
