#include "config/key_names.h"

#include <algorithm>
#include <array>

#include "core/edit_distance.h"

namespace escalier::config {

namespace {

// Lower case, dashes as underscores, leading dashes of a flag dropped.
std::string plain(const std::string& name) {
    std::string out;
    for (char c : name)
        out += c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return out.substr(std::min(out.find_first_not_of('_'), out.size()));
}

std::string leaf(const std::string& path) {
    return path.substr(path.rfind('.') + 1);
}
std::string parent(const std::string& path) {
    const std::size_t dot = path.rfind('.');
    return dot == std::string::npos ? "" : path.substr(0, dot);
}
std::string below(const std::string& section, const std::string& name) {
    return section.empty() ? name : section + "." + name;
}

// Keys of the finished spec that this build does not honour.
constexpr std::array<const char*, 5> coming_keys = {
    "parallel.cp", "parallel.ep", "parallel.sequence_parallel", "parallel.zero", "model.from"};

int allowed_distance(const std::string& name) {
    return std::max(1, static_cast<int>(name.size()) / 3);
}

// The path among `paths` whose last part is nearest to `name`, within reach; "" if none is.
std::string nearest(const std::string& name, const std::vector<std::string>& paths) {
    std::string best;
    int best_distance = allowed_distance(name) + 1;
    for (const std::string& path : paths) {
        if (!is_within(best_distance - 1, name, leaf(path))) continue;
        best_distance = edit_distance(name, leaf(path));
        best = path;
    }
    return best;
}

Suggestion ours(const ForeignName& foreign) {
    const std::string note = *foreign.note ? std::string(" (") + foreign.note + ")" : "";
    return {std::string("here it is ") + foreign.ours + note, foreign.ours};
}

// The same over whole paths, for a section that is misspelt.
std::string nearest_path(const std::string& path, const std::vector<std::string>& paths) {
    std::string best;
    const std::string name = plain(path);
    int best_distance = allowed_distance(path) + 1;
    for (const std::string& candidate : paths) {
        if (!is_within(best_distance - 1, name, candidate)) continue;
        best_distance = edit_distance(name, candidate);
        best = candidate;
    }
    return best;
}

std::string list(const std::vector<std::string>& names) {
    std::string out;
    for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
    return out;
}

}  // namespace

Suggestion suggest(const std::string& path, const FieldTable& table) {
    const std::string name = plain(leaf(path));
    const std::string section = parent(path);
    std::vector<std::string> here, everywhere;
    for (const std::string& candidate : table.names_in(section)) here.push_back(below(section, candidate));
    for (const Section& s : table.sections()) everywhere.push_back(s.path);
    for (const Field& f : table.all()) everywhere.push_back(f.path);

    if (table.find(path) || table.find_section(path))  // "parallel.tp" as one key in a file
        return {"write it nested: " + section + ": {" + leaf(path) + ": ...}", path};
    for (const std::string& candidate : here)
        if (plain(leaf(candidate)) == name) return {"did you mean " + candidate + "?", candidate};
    for (const char* coming : coming_keys)
        if (plain(path) == coming) return {"it is not supported yet; remove it", ""};
    for (const ForeignName& foreign : foreign_names())
        if (plain(path) == foreign.foreign) return ours(foreign);
    for (const std::string& candidate : everywhere)
        if (plain(leaf(candidate)) == name)
            return {"the key " + leaf(candidate) + " stands in another section: " + candidate, candidate};
    for (const ForeignName& foreign : foreign_names())
        if (name == foreign.foreign) return ours(foreign);
    if (const std::string near = nearest(name, here); !near.empty())
        return {"did you mean " + near + "?", near};
    for (const ForeignName& foreign : foreign_names())
        if (name.size() > 5 && is_within(2, name, foreign.foreign)) return ours(foreign);
    if (const std::string near = nearest(name, everywhere); !near.empty())
        return {"did you mean " + near + "?", near};
    if (const std::string near = nearest_path(path, everywhere); !near.empty())
        return {"did you mean " + near + "?", near};
    const std::string known = here.empty() ? "" : section;
    return {(known.empty() ? "known here: " : "known in " + known + ": ") + list(table.names_in(known)), ""};
}

std::string choice_hint(const std::string& value, const std::vector<std::string>& choices) {
    static constexpr std::array<std::array<const char*, 2>, 17> synonyms = {
        {{"afab", "gpipe"},
         {"interleaved1f1b", "interleaved"},
         {"interleaved_1f1b", "interleaved"},
         {"loopedbfs", "bfs"},
         {"looped_bfs", "bfs"},
         {"interleavedzerobubble", "interleaved-zb"},
         {"zbvzerobubble", "zbv"},
         {"fill_drain", "gpipe"},
         {"float32", "fp32"},
         {"float", "fp32"},
         {"bfloat16", "bf16"},
         {"gpu", "cuda"},
         {"gloo", "mpi"},
         {"inverse_square_root", "inverse_sqrt"},
         {"selective", "attention"},
         {"adam", "adamw"},
         {"gpt", "gpt2"}}};
    const std::string name = plain(value);
    for (const auto& [foreign, ours] : synonyms)
        if (name == foreign && std::find(choices.begin(), choices.end(), ours) != choices.end())
            return std::string("here it is ") + ours;
    for (const std::string& choice : choices)
        if (plain(choice) == name) return "did you mean " + choice + "?";
    const std::string near = nearest(name, choices);
    return near.empty() ? "" : "did you mean " + near + "?";
}

}  // namespace escalier::config
