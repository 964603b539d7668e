#include "config/yaml_value.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "config/key_names.h"
#include "config/number_text.h"

namespace escalier::config {

std::string Place::at(const YAML::Mark& mark) const {
    if (!positions || mark.is_null()) return name;
    return name + ":" + std::to_string(mark.line + 1) + ":" + std::to_string(mark.column + 1);
}

std::string found(const YAML::Node& node) {
    if (node.IsMap()) return "a map";
    if (node.IsSequence()) return "a list";
    if (!node.IsScalar()) return "nothing";
    std::string text = node.Scalar();
    if (text.size() > 40) text = text.substr(0, 37) + "...";
    return node.Tag() == "!" ? "\"" + text + "\" in quotes" : text.empty() ? "nothing" : text;
}

namespace {

bool digits_only(const std::string& text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

// Why `text` is no plain decimal whole number, where a reason helps.
std::string number_hint(const std::string& text) {
    const std::string digits = !text.empty() && (text[0] == '-' || text[0] == '+') ? text.substr(1) : text;
    if (digits.size() > 1 && digits[0] == '0' && digits_only(digits))
        return "a leading zero would mean octal; write " +
               digits.substr(digits.find_first_not_of('0') == std::string::npos
                                 ? digits.size() - 1
                                 : digits.find_first_not_of('0'));
    std::string joined;
    for (char c : digits)
        if (c != '_' && c != ',') joined += c;
    if (joined != digits && digits_only(joined)) return "write " + joined;
    if (digits_only(digits) && digits.size() >= 19) return "the number is too long for 64 bits";
    double value = 0.0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    if (result.ec == std::errc{} && result.ptr == text.data() + text.size() && value == std::floor(value) &&
        std::abs(value) < 9e15)
        return "write " + std::to_string(static_cast<std::int64_t>(value));
    return "";
}

bool names_yaml_file(const std::string& text) {
    for (const std::string ending : {".yaml", ".yml"})
        if (text.size() > ending.size() &&
            text.compare(text.size() - ending.size(), ending.size(), ending) == 0)
            return true;
    return false;
}

bool has_leading_zero(const std::string& text) {
    const std::size_t start = !text.empty() && text[0] == '-' ? 1 : 0;
    return text.size() > start + 1 && text[start] == '0' &&
           std::isdigit(static_cast<unsigned char>(text[start + 1]));
}

bool in_rule(double value, const RealRule& rule) {
    if (!std::isfinite(value)) return false;
    if (rule.min_open ? value <= rule.min : value < rule.min) return false;
    return rule.max_open ? value < rule.max : value <= rule.max;
}

}  // namespace

bool ValueReader::fail(const YAML::Node& node, const Field& field, const std::string& hint) {
    problems_.add(
        place_.at(node.Mark()), field.path,
        "found " + found(node) + ", wanted " + wanted(field.value) + (hint.empty() ? "" : " (" + hint + ")"));
    problems_.doubt(field.path);
    return false;
}

std::optional<std::string> ValueReader::expand(const std::string& text, std::string& fault) const {
    std::string out;
    for (std::size_t i = 0; i < text.size();) {
        if (text.compare(i, 3, "$${") == 0) {  // a literal ${
            out += "${";
            i += 3;
            continue;
        }
        if (text.compare(i, 2, "${") != 0) {
            out += text[i++];
            continue;
        }
        const std::size_t end = text.find('}', i);
        if (end == std::string::npos) {
            fault = "${ has no closing }";
            return std::nullopt;
        }
        const std::string inside = text.substr(i + 2, end - i - 2);
        const std::size_t split = inside.find(":-");
        const std::string name = inside.substr(0, split);
        if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) ||
            name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") !=
                std::string::npos) {
            fault =
                "\"" + name + "\" is no name of an environment variable; write ${NAME} or ${NAME:-default}";
            return std::nullopt;
        }
        const std::optional<std::string> value = environment_(name);
        if (split != std::string::npos && (!value || value->empty())) {
            out += inside.substr(split + 2);
        } else if (value) {
            out += *value;
        } else {
            fault =
                "the environment variable " + name + " is not set; set it or write ${" + name + ":-default}";
            return std::nullopt;
        }
        i = end + 1;
    }
    return out;
}

bool ValueReader::scalar(const YAML::Node& node, const Field& field, Scalar& out) {
    if (!node.IsScalar()) return fail(node, field);
    std::string fault;
    const std::optional<std::string> text = expand(node.Scalar(), fault);
    if (!text) {
        problems_.add(place_.at(node.Mark()), field.path, "found " + found(node) + ": " + fault);
        problems_.doubt(field.path);
        return false;
    }
    out = {*text, node.Tag() == "!"};
    return true;
}

bool ValueReader::whole_number(const YAML::Node& node, const Field& field, const IntRule& rule,
                               std::int64_t& out) {
    Scalar value;
    if (!scalar(node, field, value)) return false;
    if (value.quoted) return fail(node, field, "drop the quotes");
    std::int64_t number = 0;
    const char* end = value.text.data() + value.text.size();
    const auto result = std::from_chars(value.text.data(), end, number);
    if (result.ec != std::errc{} || result.ptr != end || has_leading_zero(value.text))
        return fail(node, field, number_hint(value.text));
    if (number > rule.max) return fail(node, field, "at most " + std::to_string(rule.max));
    if (number < rule.min) return fail(node, field);
    out = number;
    return true;
}

bool ValueReader::read_value(const IntField& f, const Field& field, const YAML::Node& node) {
    if (f.rule.zero_is_auto && node.IsScalar()) {
        Scalar value;
        if (!scalar(node, field, value)) return false;
        if (value.text == "auto") {
            *f.at = 0;
            return true;
        }
    }
    return whole_number(node, field, f.rule, *f.at);
}

bool ValueReader::read_value(const AutoIntField& f, const Field& field, const YAML::Node& node) {
    if (node.IsScalar()) {
        Scalar value;
        if (!scalar(node, field, value)) return false;
        if (value.text == "auto") {
            f.at->reset();
            return true;
        }
    }
    std::int64_t number = 0;
    if (!whole_number(node, field, f.rule, number)) return false;
    *f.at = number;
    return true;
}

bool ValueReader::read_value(const RealField& f, const Field& field, const YAML::Node& node) {
    Scalar value;
    if (!scalar(node, field, value)) return false;
    if (value.quoted) return fail(node, field, "drop the quotes");
    double number = 0.0;
    const char* end = value.text.data() + value.text.size();
    const auto result = std::from_chars(value.text.data(), end, number);
    if (result.ec == std::errc::result_out_of_range) return fail(node, field, "the number does not fit fp32");
    if (result.ec != std::errc{} || result.ptr != end || has_leading_zero(value.text))
        return fail(node, field, number_hint(value.text));
    if (!in_rule(number, f.rule)) return fail(node, field);
    // The job computes in fp32, so the rule must hold there too.
    if (std::abs(number) > std::numeric_limits<float>::max())
        return fail(node, field, "the number does not fit fp32");
    const double rounded = static_cast<float>(number);
    if (!in_rule(rounded, f.rule)) return fail(node, field, "rounded to fp32 it is " + real_text(rounded));
    *f.at = number;
    return true;
}

bool ValueReader::read_value(const BoolField& f, const Field& field, const YAML::Node& node) {
    Scalar value;
    if (!scalar(node, field, value)) return false;
    if (value.quoted) return fail(node, field, "drop the quotes");
    if (value.text != "true" && value.text != "false") return fail(node, field);
    *f.at = value.text == "true";
    return true;
}

bool ValueReader::read_value(const TextField& f, const Field& field, const YAML::Node& node) {
    if (f.rule.or_null && node.IsNull()) {
        f.at->clear();
        return true;
    }
    Scalar value;
    if (!scalar(node, field, value)) return false;
    if (!f.rule.choices.empty()) {
        bool known = false;
        for (const std::string& choice : f.rule.choices) known = known || choice == value.text;
        if (!known) return fail(node, field, choice_hint(value.text, f.rule.choices));
    }
    *f.at = value.text;
    return true;
}

bool ValueReader::read_value(const ArchField& f, const Field& field, const YAML::Node& node) {
    Scalar value;
    if (!scalar(node, field, value)) return false;
    if (value.text != "gpt2" && value.text != "llama")
        return fail(node, field, choice_hint(value.text, {"gpt2", "llama"}));
    *f.at = value.text == "gpt2" ? Arch::gpt2 : Arch::llama;
    return true;
}

bool ValueReader::read_value(const LayoutField& f, const Field& field, const YAML::Node& node) {
    if (node.IsSequence()) {
        std::vector<std::int64_t> layers;
        for (std::size_t i = 0; i < node.size(); ++i) {
            std::int64_t number = 0;
            if (!whole_number(node[i], field, {.min = 1}, number)) return false;
            layers.push_back(number);
        }
        if (layers.empty()) return fail(node, field);
        f.at->layout.clear();
        f.at->layers_per_stage = layers;
        return true;
    }
    Scalar value;
    if (!scalar(node, field, value)) return false;
    if (value.text != "balanced" && value.text != "even" && !names_yaml_file(value.text))
        return fail(node, field, choice_hint(value.text, {"balanced", "even"}));
    f.at->layout = value.text;
    f.at->layers_per_stage.clear();
    return true;
}

bool ValueReader::recompute_entry(const YAML::Node& node, const Field& field, Recompute& kind,
                                  std::int64_t& every) {
    if (node.IsMap()) {
        const YAML::Node size = node["every"];
        if (node.size() != 1 || !size) return fail(node, field, "the only key of the map is every");
        kind = Recompute::full;
        return whole_number(size, {field.path + ".every", IntField{&every, {.min = 1, .max = 1 << 14}}, ""},
                            {.min = 1, .max = 1 << 14}, every);
    }
    Scalar value;
    if (!scalar(node, field, value)) return false;
    every = 1;
    if (value.text == "none") {
        kind = Recompute::none;
    } else if (value.text == "attention") {
        kind = Recompute::attention;
    } else if (value.text == "full") {
        kind = Recompute::full;
    } else {
        return fail(node, field, choice_hint(value.text, {"none", "attention", "full"}));
    }
    return true;
}

bool ValueReader::read_value(const RecomputeField& f, const Field& field, const YAML::Node& node) {
    std::vector<YAML::Node> entries;
    if (node.IsSequence()) {
        for (std::size_t i = 0; i < node.size(); ++i) entries.push_back(node[i]);
    } else {
        entries.push_back(node);
    }
    if (entries.empty()) return fail(node, field);
    if (node.IsScalar() && node.Scalar() == "auto") {
        f.at->recompute.clear();
        f.at->recompute_every = 1;
        return true;
    }
    std::vector<Recompute> stages;
    std::int64_t group = 0;  // layers per group of the first stage with full recompute
    for (const YAML::Node& entry : entries) {
        Recompute kind = Recompute::none;
        std::int64_t every = 1;
        if (!recompute_entry(entry, field, kind, every)) {
            problems_.doubt(field.path);
            return false;
        }
        if (kind == Recompute::full) {
            if (group != 0 && group != every)
                return fail(node, field,
                            "all stages with full recompute share one group size; full is {every: 1}");
            group = every;
        }
        stages.push_back(kind);
    }
    f.at->recompute = stages;
    f.at->recompute_every = group == 0 ? 1 : group;
    return true;
}

bool ValueReader::read_value(const ScalingField& f, const Field& field, const YAML::Node& node) {
    if (!node.IsNull()) return fail(node, field);
    f.at->reset();
    return true;
}

bool ValueReader::read_value(const SourcesField&, const Field& field, const YAML::Node& node) {
    return fail(node, field);
}

bool ValueReader::read_value(const AxesField&, const Field& field, const YAML::Node& node) {
    return fail(node, field);
}

bool ValueReader::read_value(const ExcludeField&, const Field& field, const YAML::Node& node) {
    return fail(node, field);
}

bool ValueReader::read(const Field& field, const YAML::Node& node) {
    return std::visit([&](const auto& value) { return read_value(value, field, node); }, field.value);
}

}  // namespace escalier::config
