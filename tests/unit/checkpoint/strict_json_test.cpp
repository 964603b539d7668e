#include "checkpoint/strict_json.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

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

// Texts of others reach a terminal, whatever they hold.
TEST(StrictJson, QuotesAFewPrintableBytes) {
    const std::string name = "\\u001b[2J" + std::string(100000, 'x');
    for (const std::string& text :
         {"{\"" + name + "\": 1, \"" + name + "\": 1}", "{\"" + name, "[" + std::string(9999, '1') + "]",
          "{\"a\": \"" + std::string(9999, 'x') + "\x1b[2J\x7f"}) {
        const std::string fault = fault_of(text);
        EXPECT_LT(fault.size(), 300u) << fault.size();
        EXPECT_GT(fault.size(), 0u);
        EXPECT_TRUE(std::all_of(fault.begin(), fault.end(), [](char c) { return c >= ' ' && c <= '~'; }))
            << fault;
    }
}

}  // namespace
}  // namespace escalier::checkpoint
