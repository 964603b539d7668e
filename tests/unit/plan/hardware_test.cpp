#include "plan/hardware.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "plan/built_in.h"

namespace escalier::plan {
namespace {

std::string refusal(const std::string& text) {
    try {
        parse_hardware({"my.yaml", text});
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "";
}

std::string changed(const std::string& from, const std::string& to) {
    for (const auto& [name, text] : built_in_files())
        if (name == "h100") {
            std::string out(text);
            out.replace(out.find(from), from.size(), to);
            return out;
        }
    return "";
}

TEST(Hardware, BuiltInFilesAreSound) {
    EXPECT_EQ(hardware_names(), (std::vector<std::string>{"a100", "b200", "cpu", "h100", "h200"}));
    for (const std::string& name : hardware_names()) {
        const Hardware hardware = built_in_hardware(name);
        EXPECT_FALSE(hardware.name.empty()) << name;
        EXPECT_FALSE(hardware.source.empty()) << name;
        EXPECT_GE(hardware.inside.gb_per_s, hardware.between.gb_per_s) << name;
    }
    const Hardware h100 = built_in_hardware("h100");
    EXPECT_DOUBLE_EQ(h100.peak_flops("bf16"), 989.4e12);
    EXPECT_DOUBLE_EQ(h100.peak_flops("fp32"), 67e12);
    EXPECT_EQ(h100.node.gpus, 8);
}

TEST(Hardware, UnknownNameIsRefusedWithTheNearest) {
    try {
        built_in_hardware("h10");
        FAIL();
    } catch (const ConfigError& error) {
        const std::string text = error.what();
        EXPECT_NE(text.find("--gpu: found h10, wanted one of a100, b200, cpu, h100, h200"), std::string::npos)
            << text;
        EXPECT_NE(text.find("--hardware FILE"), std::string::npos) << text;
    }
}

TEST(Hardware, FaultsAreNamedWithTheirPlace) {
    EXPECT_NE(refusal(changed("bf16: 989.4", "bf16: -1.0")).find("my.yaml:3:"), std::string::npos);
    EXPECT_NE(
        refusal(changed("bf16: 989.4", "bf16: -1.0")).find("peak.bf16: found -1.0, wanted a number above 0"),
        std::string::npos);
    EXPECT_NE(refusal(changed("matmul: 0.72", "matmul: 1.5")).find("efficiency.matmul"), std::string::npos);
    EXPECT_NE(refusal(changed("gpus: 8", "gpu: 8")).find("node.gpu: unknown key"), std::string::npos);
    EXPECT_NE(refusal(changed("gpus: 8", "gpus: 08")).find("leading zero"), std::string::npos);
    EXPECT_NE(refusal(changed(", latency_us: 8.0", "")).find("inside.latency_us: is needed"),
              std::string::npos);
    EXPECT_NE(refusal(changed("gib: 80.0", "gib: 1e10")).find("memory.gib: found 1e10"), std::string::npos);
    EXPECT_NE(refusal(changed("reserved_gib: 3.0", "reserved_gib: 80.0")).find("leaves nothing"),
              std::string::npos);
    EXPECT_NE(refusal("").find("is empty, wanted a hardware file"), std::string::npos) << refusal("");
    EXPECT_NE(refusal("- 1\n").find("found a list, wanted a map"), std::string::npos) << refusal("- 1\n");
}

}  // namespace
}  // namespace escalier::plan
