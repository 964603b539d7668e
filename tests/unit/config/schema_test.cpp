#include "config/schema.h"

#include <gtest/gtest.h>

#include "config/fields.h"

namespace escalier::config {
namespace {

// The schema of key `path`, or null.
nlohmann::ordered_json of_key(const nlohmann::ordered_json& schema, const std::string& path) {
    const std::size_t dot = path.find('.');
    const std::string name = path.substr(0, dot);
    if (!schema.contains("properties") || !schema["properties"].contains(name)) return nullptr;
    const auto& found = schema["properties"][name];
    return dot == std::string::npos ? found : of_key(found, path.substr(dot + 1));
}

TEST(Schema, HoldsEveryKeyWithItsHelp) {
    const auto schema = json_schema();
    JobSpec spec;
    const FieldTable table = table_of(spec);
    for (const Field& field : table.all()) {
        const auto key = of_key(schema, field.path);
        ASSERT_FALSE(key.is_null()) << field.path;
        EXPECT_EQ(key["description"], field.help);
        EXPECT_TRUE(key.contains("type") || key.contains("enum") || key.contains("anyOf")) << field.path;
    }
    for (const Section& section : table.sections())
        EXPECT_EQ(of_key(schema, section.path)["additionalProperties"], false) << section.path;
    EXPECT_EQ(schema["required"], nlohmann::ordered_json::array({"model"}));
}

TEST(KeyReference, NamesEveryKey) {
    const std::string text = key_reference();
    JobSpec spec;
    const FieldTable table = table_of(spec);
    for (const Field& field : table.all()) {
        EXPECT_NE(text.find("  " + field.path + "\n      " + field.help), std::string::npos) << field.path;
    }
    EXPECT_NE(text.find("a whole number from 1 to 1048576; default 1\n"), std::string::npos) << text;
    EXPECT_NE(text.find("a whole number from 1 to 16384; needed\n"), std::string::npos) << text;
}

TEST(Schema, SaysTheRules) {
    const auto schema = json_schema();
    EXPECT_EQ(of_key(schema, "pipeline.schedule")["enum"][1], "1f1b");
    EXPECT_EQ(of_key(schema, "pipeline.file")["type"][3], "null");
    EXPECT_EQ(of_key(schema, "pipeline.chunks")["anyOf"][1]["const"], "auto");
    EXPECT_EQ(of_key(schema, "train.steps")["minimum"], 1);
    EXPECT_EQ(of_key(schema, "optimizer.beta1")["exclusiveMaximum"], 1.0);
    EXPECT_EQ(of_key(schema, "parallel.dp")["anyOf"][1]["const"], "auto");
    EXPECT_EQ(of_key(schema, "model.rope.scaling")["anyOf"][1]["properties"]["type"]["enum"][0], "llama3");
    EXPECT_EQ(of_key(schema, "data.train")["items"]["required"][0], "path");
}

}  // namespace
}  // namespace escalier::config
