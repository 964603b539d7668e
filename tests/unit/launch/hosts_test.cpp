#include "launch/hosts.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace escalier::launch {
namespace {

std::string refusal(const std::function<void()>& work) {
    try {
        work();
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "not refused";
}

TEST(Hosts, ComeFromAList) {
    EXPECT_EQ(parse_host_list("a:4,b:4"), (std::vector<Host>{{"a", 4}, {"b", 4}}));
    EXPECT_EQ(parse_host_list("node-1.site"), (std::vector<Host>{{"node-1.site", 1}}));
    EXPECT_EQ(parse_host_list("a,b,a,a:2"), (std::vector<Host>{{"a", 4}, {"b", 1}}));
    EXPECT_EQ(total_slots(parse_host_list("a:4,b:3")), 7);
}

TEST(Hosts, OfAListAreRefusedByName) {
    for (const char* part :
         {"a:", "a:0", "a:-1", "a:x", ":4", "a b", "-o:1", "a;b", "a:99999999999999999999", "a:4:4"}) {
        const std::string message = refusal([&] { parse_host_list(std::string("first:1,") + part); });
        EXPECT_NE(message.find("--hosts: found \"" + std::string(part).substr(0, 40) + '"'),
                  std::string::npos)
            << part << ": " << message;
    }
    EXPECT_NE(refusal([] { parse_host_list(""); }).find("wanted NAME"), std::string::npos);
    EXPECT_NE(refusal([] { parse_host_list("a,,b"); }).find("wanted NAME"), std::string::npos);
}

TEST(Hosts, ComeFromAFile) {
    EXPECT_EQ(parse_host_file("# nodes\n\nnode1 slots=4  # first\nnode2  slots=2 max_slots=8\n", "hosts"),
              (std::vector<Host>{{"node1", 4}, {"node2", 2}}));
}

TEST(Hosts, OfAFileAreRefusedByLine) {
    for (const char* line :
         {"node2", "node2 4", "node2 slots=", "node2 slots=0", "node2:4", "node2 slots=2 cpus=4"}) {
        const std::string message =
            refusal([&] { parse_host_file(std::string("node1 slots=4\n") + line, "hosts"); });
        EXPECT_NE(message.find("hosts:2: found \"" + std::string(line) + '"'), std::string::npos)
            << line << ": " << message;
    }
    EXPECT_NE(refusal([] { parse_host_file("# nobody\n", "hosts"); }).find("names no host"),
              std::string::npos);
}

TEST(Hosts, KeepTensorGroupsTogetherOrNot) {
    const std::vector<Host> even = {{"a", 4}, {"b", 4}}, odd = {{"a", 3}, {"b", 5}};
    EXPECT_FALSE(tensor_group_spans_hosts(even, 2, 8));
    EXPECT_FALSE(tensor_group_spans_hosts(even, 4, 8));
    EXPECT_TRUE(tensor_group_spans_hosts(even, 8, 8));
    EXPECT_TRUE(tensor_group_spans_hosts(odd, 2, 8));
    EXPECT_FALSE(tensor_group_spans_hosts(odd, 2, 2));  // all on the first
    EXPECT_FALSE(tensor_group_spans_hosts(odd, 1, 8));
}

}  // namespace
}  // namespace escalier::launch
