#include <stdexcept>
#include <string>
#include <unordered_set>

#include "config/dump.h"
#include "config/validate.h"
#include "core/error.h"
#include "targets.h"
#include "train/schedule_rules.h"

namespace escalier::fuzz {

namespace {

// A job that other keys can be set on.
constexpr const char* base = R"(version: 1
model: {arch: gpt2, num_layers: 4, hidden_size: 32, num_heads: 4, ffn_size: 128, vocab_size: 64}
train: {seq_len: 16, micro_batch: 1, global_batch: 8, steps: 10}
)";

std::optional<std::string> variable(const std::string& name) {
    if (name == "HOME") return "/root";
    return std::nullopt;
}

// Whether the dump reads back to the same spec was looked at before: most inputs lead to few specs.
bool seen(const std::string& dumped) {
    constexpr std::size_t room = 1 << 14;  // of about 3 KiB
    static std::unordered_set<std::string> dumps;
    if (dumps.size() == room) dumps.clear();
    return !dumps.insert(dumped).second;
}

void load_and_resolve(const std::string& text, const std::vector<std::string>& overrides) {
    const auto rules = train::schedule_rules([](const std::string&) { return "0F0,0B0\n"; });
    const std::int64_t ranks = (text.size() + (overrides.empty() ? 0 : overrides[0].size())) % 2 == 0 ? 1 : 8;
    const config::JobSpec spec =
        config::load_resolved({"job.yaml", text}, overrides, ranks, variable, rules).spec;
    // What rank 0 hands to the others.
    const std::string dumped = config::dump(spec);
    if (seen(dumped)) return;
    const config::JobSpec again = config::load({"job.yaml", dumped}, {}, variable).spec;
    if (config::dump(again) != dumped)
        throw std::logic_error("the dump reads back to another spec:\n" + dumped);
}

}  // namespace

void job_spec(std::string_view input) {
    load_and_resolve(std::string(input), {});
}

void job_override(std::string_view input) {
    load_and_resolve(base, {std::string(input)});
}

}  // namespace escalier::fuzz
