#include "checkpoint/hf_rope.h"

#include <optional>

#include "core/error.h"
#include "core/text.h"

namespace escalier::checkpoint {

namespace {

using nlohmann::json;

// One of the two maps, or what lies beside them.
struct Spelling {
    std::optional<double> theta;
    std::optional<config::RopeScaling> scaling;
    bool says_scaling = false;  // that there is one, or that there is none
};

class RopeReader {
 public:
    RopeReader(const json& root, const std::string& path, std::int64_t max_positions)
        : root_(root), path_(path), max_positions_(max_positions) {}

    config::RopeConfig read() const {
        const Spelling old = spelling("rope_scaling"), now = spelling("rope_parameters");
        if (old.says_scaling && now.says_scaling && old.scaling != now.scaling)
            throw DataError(path_ + ": 'rope_scaling' is " + shortened(root_["rope_scaling"].dump()) +
                            ", but 'rope_parameters' is " + shortened(root_["rope_parameters"].dump()) +
                            ". Make them agree or remove one.");
        config::RopeConfig rope;
        rope.scaling = old.says_scaling ? old.scaling : now.scaling;
        std::optional<double> theta;
        if (has(root_, "rope_theta")) theta = number(root_, "rope_theta", "");
        for (const Spelling* other : {&old, &now}) {
            if (!other->theta) continue;
            if (theta && *theta != *other->theta)
                throw DataError(path_ + ": 'rope_theta' is " + json(*theta).dump() + " in one place and " +
                                json(*other->theta).dump() +
                                " in another (rope_theta, rope_scaling, rope_parameters). Make them equal.");
            theta = other->theta;
        }
        if (theta) rope.theta = *theta;  // else the default of transformers, which is ours
        return rope;
    }

 private:
    static bool has(const json& map, const char* key) { return map.contains(key) && !map[key].is_null(); }

    [[noreturn]] void refuse(const std::string& name, const json& value, const std::string& rule) const {
        throw DataError(path_ + ": '" + name + "' is " + shortened(value.dump()) + "; " + rule);
    }

    double number(const json& map, const char* key, const std::string& prefix) const {
        if (!has(map, key))
            throw DataError(path_ + ": '" + prefix + key + "' is missing; llama3 scaling needs it.");
        if (!map[key].is_number()) refuse(prefix + key, map[key], "wanted a number.");
        return map[key];
    }

    std::string type(const json& map, const std::string& name) const {
        std::optional<std::string> type;
        for (const char* key : {"type", "rope_type"}) {
            if (!has(map, key)) continue;
            if (!map[key].is_string() || (map[key] != "default" && map[key] != "llama3"))
                refuse(name + "." + key, map[key], "Escalier has default and llama3.");
            if (type && *type != map[key])
                refuse(name + ".rope_type", map[key], "but 'type' is " + *type + ".");
            type = map[key];
        }
        return type.value_or("default");
    }

    Spelling spelling(const char* name) const {
        if (!has(root_, name)) return {};
        const json& map = root_[name];
        if (!map.is_object()) refuse(name, map, "wanted a map such as {\"rope_type\": \"llama3\", …}.");
        if (map.empty()) return {};
        Spelling out;
        const std::string kind = type(map, name), prefix = std::string(name) + ".";
        refuse_unknown_keys(map, kind, prefix);
        if (has(map, "rope_theta")) out.theta = number(map, "rope_theta", prefix);
        if (has(map, "partial_rotary_factor") && map["partial_rotary_factor"] != 1)
            refuse(prefix + "partial_rotary_factor", map["partial_rotary_factor"],
                   "Escalier rotates whole heads: only 1 can be imported.");
        out.says_scaling = has(map, "type") || has(map, "rope_type");
        if (kind == "llama3") out.scaling = llama3(map, prefix);
        return out;
    }

    void refuse_unknown_keys(const json& map, const std::string& kind, const std::string& prefix) const {
        for (const auto& [key, value] : map.items()) {
            const bool general =
                key == "type" || key == "rope_type" || key == "rope_theta" || key == "partial_rotary_factor";
            const bool of_llama3 = key == "factor" || key == "low_freq_factor" || key == "high_freq_factor" ||
                                   key == "original_max_position_embeddings";
            if (!value.is_null() && !general && !(kind == "llama3" && of_llama3))
                refuse(prefix + shortened(key), value,
                       "Escalier's rope_type " + kind + " has no such value.");
        }
    }

    config::RopeScaling llama3(const json& map, const std::string& prefix) const {
        config::RopeScaling scaling;
        scaling.factor = number(map, "factor", prefix);
        scaling.low_freq_factor = number(map, "low_freq_factor", prefix);
        scaling.high_freq_factor = number(map, "high_freq_factor", prefix);
        // transformers puts the value beside the map above the one in it, and falls back to the context.
        const char* key = "original_max_position_embeddings";
        const bool beside = has(root_, key), inside = has(map, key);
        if (beside && inside && root_[key] != map[key])
            refuse(key, root_[key], "but '" + prefix + key + "' is " + shortened(map[key].dump()) + ".");
        scaling.original_max_positions = max_positions_;
        if (beside || inside) {
            const json& value = beside ? root_[key] : map[key];
            if (!value.is_number_integer() || value < 1 || value > INT32_MAX)
                refuse(beside ? key : prefix + key, value, "wanted a whole number from 1 to 2147483647.");
            scaling.original_max_positions = value;
        }
        return scaling;
    }

    const json& root_;
    const std::string& path_;
    std::int64_t max_positions_;
};

}  // namespace

config::RopeConfig read_hf_rope(const json& root, const std::string& path, std::int64_t max_positions) {
    return RopeReader(root, path, max_positions).read();
}

void write_hf_rope(const config::RopeConfig& rope, nlohmann::ordered_json& root) {
    nlohmann::ordered_json map;
    map["rope_type"] = rope.scaling ? rope.scaling->type : "default";
    if (rope.scaling) {
        map["factor"] = rope.scaling->factor;
        map["low_freq_factor"] = rope.scaling->low_freq_factor;
        map["high_freq_factor"] = rope.scaling->high_freq_factor;
        map["original_max_position_embeddings"] = rope.scaling->original_max_positions;
    }
    root["rope_theta"] = rope.theta;
    root["rope_scaling"] = rope.scaling ? map : nlohmann::ordered_json();
    map["rope_theta"] = rope.theta;
    root["rope_parameters"] = map;
}

}  // namespace escalier::checkpoint
