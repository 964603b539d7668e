#include "checkpoint/strict_json.h"

#include <gtest/gtest.h>

namespace escalier::checkpoint {
namespace {

std::string fault_of(const std::string& text) {
    try {
        parse_strict_json(text);
    } catch (const JsonFault& fault) {
        return fault.what();
    }
    return "";
}

TEST(StrictJson, ReadsWhatIsSound) {
    EXPECT_EQ(parse_strict_json(R"({"a": [1, {"b": null}], "c": {"a": true}})")["a"][0], 1);
    EXPECT_EQ(fault_of(std::string(64, '[') + std::string(64, ']')), "");
}

TEST(StrictJson, NamesTheFault) {
    EXPECT_EQ(fault_of(R"({"a": 1, "b": {"a": 1}, "a": 1})"), "names 'a' twice");
    EXPECT_EQ(fault_of(R"([{"b": 1}, {"a": {"b": 1, "b": 1}}])"), "names 'b' twice");
    EXPECT_EQ(fault_of(std::string(65, '[') + std::string(65, ']')), "is nested more than 64 deep");
    EXPECT_EQ(fault_of(std::string(100000, '[')), "is nested more than 64 deep");
    for (const char* text : {"", "{", "{} {}", "{\"a\": 1e999}", "\"\xff\"", "nan"})
        EXPECT_EQ(fault_of(text).find("is not valid JSON"), 0u) << text;
}

}  // namespace
}  // namespace escalier::checkpoint
