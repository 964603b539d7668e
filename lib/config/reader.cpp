#include "config/reader.h"

#include <yaml-cpp/eventhandler.h>

#include <sstream>

#include "config/key_names.h"
#include "config/sweep_reader.h"

namespace escalier::config {

namespace {

std::string below(const std::string& section, const std::string& name) {
    return section.empty() ? name : section + "." + name;
}

// YAML forbids tabs in indentation; its parsers report them late and unclearly.
bool refuse_tabs(const std::string& text, const Place& place, Problems& problems) {
    int line = 1;
    for (std::size_t start = 0; start < text.size(); ++line) {
        std::size_t end = text.find('\n', start);
        if (end == std::string::npos) end = text.size();
        const std::size_t first = text.find_first_not_of(" \t\r", start);
        if (first < end && text[first] != '#') {
            const std::size_t tab = text.find('\t', start);
            if (tab < first) {
                problems.add(place.name + ":" + std::to_string(line) + ":" + std::to_string(tab - start + 1),
                             "", "found a tab in the indentation, wanted spaces");
                return false;
            }
        }
        start = end + 1;
    }
    return true;
}

// The parser's words for its commonest errors, in ours.
std::string syntax_words(const std::string& message) {
    if (message == "end of map flow not found")
        return "a { is not closed by }, or a value with braces lacks quotes";
    if (message == "end of sequence flow not found") return "a [ is not closed by ]";
    return message;
}

// Counts documents and forgets what is in them.
class Documents final : public YAML::EventHandler {
 public:
    int count = 0;
    YAML::Mark last;

 private:
    void OnDocumentStart(const YAML::Mark& mark) override {
        ++count;
        last = mark;
    }
    void OnDocumentEnd() override {}
    void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
    void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
    void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
    void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                         YAML::EmitterStyle::value) override {}
    void OnSequenceEnd() override {}
    void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                    YAML::EmitterStyle::value) override {}
    void OnMapEnd() override {}
};

}  // namespace

std::optional<YAML::Node> parse_yaml(const std::string& text, const Place& place, Problems& problems) {
    if (text.find('\0') != std::string::npos) {
        problems.add(place.name, "", "holds zero bytes: this is no text, wanted YAML");
        return std::nullopt;
    }
    if (!refuse_tabs(text, place, problems)) return std::nullopt;
    try {
        // Two at most: of some faulty texts (a directive without its document) yaml-cpp 0.7 reads without
        // end.
        std::istringstream stream(text);
        YAML::Parser parser(stream);
        Documents documents;
        while (documents.count < 2 && parser.HandleNextDocument(documents)) {
        }
        if (documents.count > 1) {
            problems.add(place.at(documents.last), "", "found a second YAML document (---), wanted one");
            return std::nullopt;
        }
        return YAML::Load(text);
    } catch (const YAML::Exception& error) {
        problems.add(place.at(error.mark), "", "not valid YAML: " + syntax_words(error.msg));
        return std::nullopt;
    }
}

bool Reader::read_document(const YAML::Node& root, const Place& place) {
    if (root.IsNull()) {
        problems_.add(place.name, "", "the file is empty, wanted " + document_);
        return false;
    }
    if (!root.IsMap()) {
        problems_.add(place.at(root.Mark()), "",
                      "found " + found(root) + ", wanted a map of sections: " + document_);
        return false;
    }
    read_map(root, table_, "", place);
    return true;
}

bool Reader::read_text(const std::string& text, const Place& place) {
    const std::optional<YAML::Node> root = parse_yaml(text, place, problems_);
    return root && read_document(*root, place);
}

void Reader::read_override(const std::string& assignment) {
    const Place place{"--set " + assignment, false};
    const std::size_t equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0) {
        problems_.add(place.name, "", "wanted key=value, such as --set parallel.tp=2");
        return;
    }
    const std::string path = assignment.substr(0, equals);
    const std::optional<YAML::Node> value = parse_yaml(assignment.substr(equals + 1), place, problems_);
    if (!value) {
        problems_.doubt(path);
        return;
    }
    const std::string scaling = "model.rope.scaling.";
    if (path.compare(0, scaling.size(), scaling) == 0) {  // a key of a section that may be null
        YAML::Node map(YAML::NodeType::Map);
        map[path.substr(scaling.size())] = *value;
        read_field(*table_.find(scaling.substr(0, scaling.size() - 1)), map, place);
        return;
    }
    read_entry(path, YAML::Node(path), *value, table_, place);
}

bool Reader::refuse_tags(const YAML::Node& node, const std::string& path, const Place& place) {
    const std::string& tag = node.Tag();
    if (tag.empty() || tag == "?" || tag == "!") return false;
    problems_.add(place.at(node.Mark()), path, "found the YAML tag " + tag + ", wanted a plain value");
    problems_.doubt(path);
    return true;
}

void Reader::read_map(const YAML::Node& map, const FieldTable& table, const std::string& section,
                      const Place& place) {
    std::map<std::string, YAML::Mark> seen;
    for (const auto& entry : map) {
        const YAML::Node& key = entry.first;
        if (!key.IsScalar() || key.Scalar().empty()) {
            problems_.add(place.at(key.Mark()), section, "found " + found(key) + " as a key, wanted a name");
            continue;
        }
        const std::string name = key.Scalar();
        if (name == "<<") {
            problems_.add(place.at(key.Mark()), below(section, name),
                          "merge keys are not supported; write the keys out, or use model.preset");
            problems_.doubt(section.empty() ? "model" : section);
            continue;
        }
        const std::string path = below(section, name);
        const auto [first, is_new] = seen.emplace(name, key.Mark());
        if (!is_new) {
            problems_.add(place.at(key.Mark()), path,
                          place.positions
                              ? "given twice, first at line " + std::to_string(first->second.line + 1) +
                                    " and again at line " + std::to_string(key.Mark().line + 1) + "; keep one"
                              : "given twice; keep one");
            problems_.doubt(path);
            continue;
        }
        if (name.find('.') != std::string::npos) {  // paths are for --set
            refuse_key(path, key, table, place);
            continue;
        }
        read_entry(path, key, entry.second, table, place);
    }
}

void Reader::read_entry(const std::string& path, const YAML::Node& key, const YAML::Node& value,
                        const FieldTable& table, const Place& place) {
    if (const Field* field = table.find(path)) {
        read_field(*field, value, place);
        return;
    }
    if (table.find_section(path)) {
        if (refuse_tags(value, path, place) || value.IsNull()) return;
        if (value.IsMap()) {
            read_map(value, table, path, place);
            return;
        }
        std::string names;
        for (const std::string& name : table.names_in(path)) names += (names.empty() ? "" : ", ") + name;
        problems_.add(place.at(value.Mark()), path,
                      "found " + found(value) + ", wanted a map of its keys: " + names);
        problems_.doubt(path);
        return;
    }
    refuse_key(path, key, table, place);
}

void Reader::refuse_key(const std::string& path, const YAML::Node& key, const FieldTable& table,
                        const Place& place) {
    const Suggestion suggestion = suggest(path, table);
    problems_.add(place.at(key.Mark()), path, "unknown key; " + suggestion.text);
    if (!suggestion.key.empty()) problems_.doubt(suggestion.key);
}

void Reader::read_field(const Field& field, const YAML::Node& node, const Place& place) {
    if (refuse_tags(node, field.path, place)) return;
    if (const auto* sources = std::get_if<SourcesField>(&field.value); sources && node.IsSequence()) {
        read_sources(*sources, field, node, place);
    } else if (const auto* scaling = std::get_if<ScalingField>(&field.value); scaling && node.IsMap()) {
        read_scaling(*scaling, field, node, place);
    } else if (const auto* axes = std::get_if<AxesField>(&field.value); axes && node.IsMap()) {
        SweepReader(place, environment_, problems_).read_axes(node, *axes->at);
    } else if (const auto* exclude = std::get_if<ExcludeField>(&field.value); exclude && node.IsSequence()) {
        SweepReader(place, environment_, problems_).read_exclude(node, *exclude->at);
    } else if (!ValueReader(place, environment_, problems_).read(field, node)) {
        return;
    }
    origins_[field.path] = !origin_.empty() ? origin_ : place.positions ? place.at(node.Mark()) : "--set";
}

void Reader::read_sources(const SourcesField& sources, const Field& field, const YAML::Node& node,
                          const Place& place) {
    std::vector<DataSource> list(node.size());
    for (std::size_t i = 0; i < node.size(); ++i) {
        const std::string path = field.path + "[" + std::to_string(i) + "]";
        if (!node[i].IsMap()) {
            problems_.add(
                place.at(node[i].Mark()), path,
                "found " + found(node[i]) + ", wanted a map such as {path: data/corpus, weight: 1.0}");
            problems_.doubt(field.path);
            continue;
        }
        read_map(node[i], table_of(list[i], path + "."), path, place);
        if (list[i].path.empty() && !problems_.doubted(path + ".path")) {
            problems_.add(place.at(node[i].Mark()), path + ".path", "is needed: the file to train on");
            problems_.doubt(field.path);
        }
    }
    *sources.at = std::move(list);
}

void Reader::read_scaling(const ScalingField& scaling, const Field& field, const YAML::Node& node,
                          const Place& place) {
    RopeScaling value = scaling.at->value_or(RopeScaling{});
    read_map(node, table_of(value, field.path + "."), field.path, place);
    *scaling.at = value;
}

}  // namespace escalier::config
