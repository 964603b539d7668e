#include "config/schema.h"

#include <cmath>

#include "config/dump.h"
#include "config/fields.h"
#include "config/presets.h"

namespace escalier::config {

namespace {

using Json = nlohmann::ordered_json;

Json whole_number(const IntRule& rule) {
    return {{"type", "integer"}, {"minimum", rule.min}, {"maximum", rule.max}};
}

Json or_auto(const Json& number) {
    return {{"anyOf", Json::array({number, {{"const", "auto"}}})}};
}

Json choice(const std::vector<std::string>& choices) {
    return {{"enum", choices}};
}

template <class Config>
Json object_of(Config& config);

struct ToSchema {
    Json operator()(const IntField& f) const {
        return f.rule.zero_is_auto ? or_auto(whole_number(f.rule)) : whole_number(f.rule);
    }
    Json operator()(const AutoIntField& f) const { return or_auto(whole_number(f.rule)); }
    Json operator()(const RealField& f) const {
        Json number = {{"type", "number"}};
        if (std::isfinite(f.rule.min)) number[f.rule.min_open ? "exclusiveMinimum" : "minimum"] = f.rule.min;
        if (std::isfinite(f.rule.max)) number[f.rule.max_open ? "exclusiveMaximum" : "maximum"] = f.rule.max;
        return number;
    }
    Json operator()(const BoolField&) const { return {{"type", "boolean"}}; }
    Json operator()(const TextField& f) const {
        if (f.rule.or_null) return {{"type", Json::array({"string", "number", "boolean", "null"})}};
        return f.rule.choices.empty() ? Json{{"type", Json::array({"string", "number", "boolean"})}}
                                      : choice(f.rule.choices);
    }
    Json operator()(const ArchField&) const { return choice({"gpt2", "llama"}); }
    Json operator()(const LayoutField&) const {
        const Json counts = {
            {"type", "array"}, {"minItems", 1}, {"items", {{"type", "integer"}, {"minimum", 1}}}};
        const Json profile = {{"type", "string"}, {"pattern", "\\.ya?ml$"}};
        return {{"anyOf", Json::array({choice({"balanced", "even"}), profile, counts})}};
    }
    Json operator()(const RecomputeField&) const {
        const Json every = {{"type", "object"},
                            {"properties", {{"every", {{"type", "integer"}, {"minimum", 1}}}}},
                            {"required", Json::array({"every"})},
                            {"additionalProperties", false}};
        const Json one = {{"anyOf", Json::array({choice({"none", "attention", "full"}), every})}};
        return {{"anyOf",
                 Json::array({choice({"auto"}), one, {{"type", "array"}, {"minItems", 1}, {"items", one}}})}};
    }
    Json operator()(const ScalingField&) const {
        RopeScaling scaling;
        return {{"anyOf", Json::array({{{"type", "null"}}, object_of(scaling)})}};
    }
    Json operator()(const SourcesField&) const {
        DataSource source;
        Json item = object_of(source);
        item["required"] = Json::array({"path"});
        return {{"type", "array"}, {"items", item}};
    }
    Json operator()(const AxesField&) const {
        return {{"type", "object"}, {"additionalProperties", {{"type", "array"}, {"minItems", 1}}}};
    }
    Json operator()(const ExcludeField&) const {
        return {{"type", "array"}, {"items", {{"type", "object"}, {"minProperties", 1}}}};
    }
};

// The object of section `path`; its fields and sections are those of `table` one level down.
Json section_object(const FieldTable& table, const std::string& path) {
    Json properties = Json::object();
    for (const std::string& name : table.names_in(path)) {
        const std::string full = path.empty() ? name : path + "." + name;
        if (const Field* field = table.find(full)) {
            properties[name] = std::visit(ToSchema{}, field->value);
            properties[name]["description"] = field->help;
            if (full == "model.preset") properties[name]["examples"] = preset_names();
        } else {
            properties[name] = section_object(table, full);
            properties[name]["description"] = table.find_section(full)->help;
        }
    }
    return {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
}

template <class Config>
Json object_of(Config& config) {
    return section_object(table_of(config), "");
}

}  // namespace

nlohmann::ordered_json json_schema() {
    JobSpec spec;
    const FieldTable table = table_of(spec);
    Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                   {"title", "Escalier job spec"}};
    schema.update(section_object(table, ""));
    schema["required"] = Json::array({"model"});
    return schema;
}

std::string key_reference() {
    JobSpec defaults;
    const FieldTable table = table_of(defaults);
    std::string out;
    std::string open;
    for (const Field& field : table.all()) {
        const std::size_t dot = field.path.rfind('.');
        const std::string section = dot == std::string::npos ? "" : field.path.substr(0, dot);
        if (section != open && !section.empty())
            out += "\n" + section + ": " + table.find_section(section)->help + "\n";
        open = section;
        const bool has_default =
            !std::holds_alternative<IntField>(field.value) ||
            *std::get<IntField>(field.value).at >= std::get<IntField>(field.value).rule.min ||
            std::get<IntField>(field.value).rule.zero_is_auto;
        out += "  " + field.path + "\n      " + field.help + "\n      " + wanted(field.value) +
               (has_default ? "; default " + yaml_text(field.value) : "; needed") + "\n";
    }
    return out;
}

}  // namespace escalier::config
