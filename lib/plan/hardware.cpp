#include "plan/hardware.h"

#include "config/key_names.h"
#include "config/reader.h"
#include "core/error.h"
#include "plan/built_in.h"

namespace escalier::plan {

namespace {

using config::FieldTable;
using config::FieldValue;
using config::RealField;
using config::TextField;

FieldValue above_zero(double& at) {
    return RealField{&at, {.min = 0.0, .min_open = true}};
}
FieldValue not_negative(double& at) {
    return RealField{&at, {.min = 0.0}};
}
FieldValue share(double& at) {
    return RealField{&at, {.min = 0.0, .max = 1.0, .min_open = true}};
}

}  // namespace

void fields(FieldTable& f, Hardware::Peak& c) {
    f("fp32", above_zero(c.fp32), "TFLOP/s");
    f("bf16", above_zero(c.bf16), "TFLOP/s, dense");
}

void fields(FieldTable& f, Hardware::Memory& c) {
    f("gib", RealField{&c.gib, {.min = 0.0, .max = most_memory_gib, .min_open = true}}, "GiB of one device");
    f("reserved_gib", not_negative(c.reserved_gib), "GiB of it that libraries and the driver take");
    f("gb_per_s", above_zero(c.gb_per_s), "1e9 bytes per second");
}

void fields(FieldTable& f, Hardware::Node& c) {
    f("gpus", config::IntField{&c.gpus, {1, 4096, false}}, "devices");
}

void fields(FieldTable& f, Hardware::Link& c) {
    f("gb_per_s", above_zero(c.gb_per_s), "1e9 bytes per second, each way");
    f("latency_us", not_negative(c.latency_us), "microseconds");
}

void fields(FieldTable& f, Hardware::Efficiency& c) {
    f("matmul", share(c.matmul), "share of the peak that large products reach");
    f("attention", share(c.attention), "share of the peak that attention reaches");
    f("memory", share(c.memory), "share of the memory's rate");
    f("link", share(c.link), "share of the links' rate");
}

void fields(FieldTable& f, Hardware& c) {
    f("name", TextField{&c.name, {}}, "of the device");
    f.section("peak", c.peak, "of one device");
    f.section("memory", c.memory, "of one device");
    f.section("node", c.node, "devices that share fast links");
    f.section("inside", c.inside, "link of one device inside a node");
    f.section("between", c.between, "link of one device between nodes");
    f.section("efficiency", c.efficiency, "what is reached of these figures");
    f("source", TextField{&c.source, {}}, "where the figures come from");
}

std::vector<std::string> hardware_names() {
    std::vector<std::string> names;
    for (const auto& file : built_in_files()) names.emplace_back(file.first);
    return names;
}

Hardware built_in_hardware(std::string_view name) {
    for (const auto& [known, text] : built_in_files())
        if (known == name)
            return parse_hardware({"configs/hardware/" + std::string(name) + ".yaml", std::string(text)});
    std::string list;
    for (const std::string& known : hardware_names()) list += (list.empty() ? "" : ", ") + known;
    const std::string hint = config::choice_hint(std::string(name), hardware_names());
    throw ConfigError("--gpu: found " + std::string(name) + ", wanted one of " + list +
                      (hint.empty() ? "" : " (" + hint + ")") +
                      "; describe another machine in a file of the same keys and give it as --hardware FILE");
}

Hardware parse_hardware(const config::YamlFile& file) {
    Hardware hardware;
    config::Problems problems;
    config::Origins origins;
    const FieldTable table = config::table_of(hardware);
    const config::Environment nothing = [](const std::string&) { return std::nullopt; };
    config::Reader reader(table, nothing, problems, origins);
    reader.set_document("a hardware file such as configs/hardware/h100.yaml");
    reader.read_text(file.text, {file.path});
    if (problems.empty())
        for (const config::Field& field : table.all())
            if (origins.count(field.path) == 0)
                problems.add(file.path, field.path,
                             "is needed: " + config::wanted(field.value) + ", " + field.help);
    if (problems.empty() && hardware.memory.reserved_gib >= hardware.memory.gib)
        problems.add(file.path, "memory.reserved_gib", "leaves nothing of memory.gib; give less");
    problems.throw_if_any();
    return hardware;
}

}  // namespace escalier::plan
