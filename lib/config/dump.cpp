#include "config/dump.h"

#include <algorithm>
#include <cstdio>

#include "config/number_text.h"

namespace escalier::config {

namespace {

std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (std::size_t i = 0; i < text.size(); ++i) {
        const unsigned char c = static_cast<unsigned char>(text[i]);
        if (c == '"' || c == '\\') {
            out += std::string("\\") + text[i];
        } else if (c < 0x20 || c == 0x7f) {
            char code[8];
            std::snprintf(code, sizeof code, "\\x%02x", c);
            out += code;
        } else if (text.compare(i, 2, "${") == 0) {
            out += "$$";
        } else {
            out += text[i];
        }
    }
    return out + "\"";
}

std::string string_text(const std::string& text) {
    const bool plain =
        !text.empty() && text != "null" && text != "Null" && text != "NULL" && text != "-" &&
        text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-") ==
            std::string::npos &&
        text.compare(0, 3, "---") != 0 && text.compare(0, 3, "...") != 0;
    return plain ? text : quoted(text);
}

// {a: 1, b: 2} of every key of a struct.
template <class Config>
std::string flow_map(Config config) {
    std::string out;
    const FieldTable table = table_of(config);
    for (const Field& field : table.all())
        out += (out.empty() ? "{" : ", ") + field.path + ": " + yaml_text(field.value);
    return out + "}";
}

std::string recompute_text(Recompute kind, std::int64_t every) {
    switch (kind) {
        case Recompute::none:
            return "none";
        case Recompute::attention:
            return "attention";
        case Recompute::full:
            return every == 1 ? "full" : "{every: " + std::to_string(every) + "}";
    }
    return "none";
}

struct ToYaml {
    std::string operator()(const IntField& f) const {
        return f.rule.zero_is_auto && *f.at == 0 ? "auto" : std::to_string(*f.at);
    }
    std::string operator()(const AutoIntField& f) const { return *f.at ? std::to_string(**f.at) : "auto"; }
    std::string operator()(const RealField& f) const { return real_text(*f.at); }
    std::string operator()(const BoolField& f) const { return *f.at ? "true" : "false"; }
    std::string operator()(const TextField& f) const {
        return f.rule.or_null && f.at->empty() ? "null" : string_text(*f.at);
    }
    std::string operator()(const ArchField& f) const { return *f.at == Arch::gpt2 ? "gpt2" : "llama"; }
    std::string operator()(const LayoutField& f) const {
        if (f.at->layers_per_stage.empty()) return string_text(f.at->layout);
        std::string out;
        for (std::int64_t layers : f.at->layers_per_stage)
            out += (out.empty() ? "[" : ", ") + std::to_string(layers);
        return out + "]";
    }
    std::string operator()(const RecomputeField& f) const {
        if (f.at->recompute.empty()) return "auto";
        std::string out;
        for (Recompute kind : f.at->recompute)
            out += (out.empty() ? "" : ", ") + recompute_text(kind, f.at->recompute_every);
        return f.at->recompute.size() == 1 ? out : "[" + out + "]";
    }
    std::string operator()(const ScalingField& f) const { return *f.at ? flow_map(**f.at) : "null"; }
    std::string operator()(const SourcesField& f) const {
        std::string out;
        for (const DataSource& source : *f.at) out += (out.empty() ? "" : ", ") + flow_map(source);
        return "[" + out + "]";
    }
    std::string operator()(const AxesField& f) const {
        std::string out;
        for (const SweepAxis& axis : *f.at) {
            std::string values;
            for (const std::string& value : axis.values) values += (values.empty() ? "" : ", ") + value;
            out += (out.empty() ? "" : ", ") + axis.key + ": [" + values + "]";
        }
        return "{" + out + "}";
    }
    std::string operator()(const ExcludeField& f) const {
        std::string out;
        for (const std::vector<SweepSetting>& settings : *f.at) {
            std::string map;
            for (const SweepSetting& setting : settings)
                map += (map.empty() ? "" : ", ") + setting.key + ": " + setting.value;
            out += (out.empty() ? "{" : ", {") + map + "}";
        }
        return "[" + out + "]";
    }
};

std::string dump_table(const FieldTable& table, const Origins* origins) {
    std::string out;
    std::string open;  // section of the last line
    for (const Field& field : table.all()) {
        const std::size_t dot = field.path.rfind('.');
        const std::string section = dot == std::string::npos ? "" : field.path.substr(0, dot);
        const auto depth = static_cast<std::size_t>(std::count(field.path.begin(), field.path.end(), '.'));
        if (section != open && open.compare(0, section.size() + 1, section + ".") != 0)
            out += std::string(2 * (depth - 1), ' ') + section.substr(section.rfind('.') + 1) + ":\n";
        open = section;
        std::string line =
            std::string(2 * depth, ' ') + field.path.substr(dot + 1) + ": " + yaml_text(field.value);
        if (origins) {
            const auto origin = origins->find(field.path);
            line.resize(std::max<std::size_t>(line.size() + 2, 40), ' ');
            line += "# " + (origin == origins->end() ? "default" : origin->second);
        }
        out += line + "\n";
    }
    return out;
}

}  // namespace

std::string yaml_text(const FieldValue& value) {
    return std::visit(ToYaml{}, value);
}

std::string dump(const JobSpec& spec) {
    JobSpec copy = spec;
    return dump_table(table_of(copy), nullptr);
}

std::string dump(const JobSpec& spec, const Origins& origins) {
    JobSpec copy = spec;
    return dump_table(table_of(copy), &origins);
}

std::string dump(const FieldTable& table) {
    return dump_table(table, nullptr);
}

std::string dump_model(const ModelConfig& model) {
    ModelConfig copy = model;
    FieldTable table;
    table.section("model", copy, "");
    return dump_table(table, nullptr);
}

}  // namespace escalier::config
