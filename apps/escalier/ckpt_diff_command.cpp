#include "ckpt_diff_command.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/tensor_blocks.h"
#include "ckpt_open.h"
#include "core/text.h"
#include "number_options.h"
#include "text_table.h"

namespace escalier::apps {

namespace {

struct DiffArguments {
    std::string a, b;
    std::vector<std::string> ignored_keys;
    std::int64_t limit = 20;
};

struct Differing {
    std::string name;
    std::string place;  // of the largest difference
    checkpoint::TensorDifference by;
};

struct Findings {
    std::vector<std::string> structure;  // what stops a comparison, one line each
    std::vector<Differing> differing;
    std::int64_t equal = 0;
};

void compare(const checkpoint::TensorSource& a, const checkpoint::TensorSource& b, const std::string& suffix,
             Findings& findings) {
    for (const auto& [name, info] : a.tensors()) {
        const auto other = b.tensors().find(name);
        if (other == b.tensors().end()) {
            findings.structure.push_back(checkpoint::name_text(name) + suffix + " " + info.text() +
                                         " is only in A");
        } else if (other->second.shape != info.shape) {
            findings.structure.push_back(checkpoint::name_text(name) + suffix + " is " + info.text() +
                                         " in A, " + other->second.text() + " in B");
        } else {
            const checkpoint::TensorDifference found = checkpoint::compare_tensor(a, b, name);
            if (found.differing == 0)
                ++findings.equal;
            else
                findings.differing.push_back({checkpoint::name_text(name) + suffix,
                                              checkpoint::index_text(info.shape, found.place), found});
        }
    }
    for (const auto& [name, info] : b.tensors())
        if (!a.tensors().contains(name))
            findings.structure.push_back(checkpoint::name_text(name) + suffix + " " + info.text() +
                                         " is only in B");
}

// Of two checkpoints; one without an optimizer has none.
void compare_moments(const OpenedTensors& a, const OpenedTensors& b, Findings& findings) {
    if (!a.reader || !b.reader) return;
    for (const checkpoint::StateKind kind :
         {checkpoint::StateKind::exp_avg, checkpoint::StateKind::exp_avg_sq}) {
        const checkpoint::TensorSource &of_a = a.reader->tensors(kind), &of_b = b.reader->tensors(kind);
        const std::string name = checkpoint::state_kind_name(kind);
        if (of_a.tensors().empty() != of_b.tensors().empty())
            findings.structure.push_back(name + " of all tensors is only in " +
                                         (of_a.tensors().empty() ? "B" : "A"));
        else
            compare(of_a, of_b, "." + name, findings);
    }
}

// What is damaged is no state that a run was in.
void verify(const OpenedTensors& opened) {
    if (!opened.reader) return;
    for (std::size_t i = 0; i < opened.reader->manifest().files.size(); ++i) opened.reader->verify_file(i);
}

// The largest first; at most `limit` of them, 0: all.
void print_differing(std::vector<Differing> differing, std::int64_t limit) {
    if (differing.empty()) return;
    std::stable_sort(differing.begin(), differing.end(),
                     [](const Differing& x, const Differing& y) { return x.by.largest > y.by.largest; });
    const std::size_t shown =
        limit == 0 ? differing.size() : std::min(differing.size(), static_cast<std::size_t>(limit));
    std::vector<Row> rows = {{"tensor", "max |a-b|", "max relative", "differing", "of", "at", "A", "B"}};
    for (std::size_t i = 0; i < shown; ++i) {
        const Differing& d = differing[i];
        rows.push_back({d.name, fmt::format("{:.3e}", d.by.largest),
                        fmt::format("{:.3e}", d.by.largest_relative), grouped(d.by.differing),
                        grouped(d.by.elements), d.place, fmt::format("{:.9g}", d.by.a),
                        fmt::format("{:.9g}", d.by.b)});
    }
    std::cout << text_table(rows);
    if (shown < differing.size())
        std::cout << "... and " << differing.size() - shown << " more (--limit " << differing.size()
                  << " shows them)\n";
}

int run_diff(const DiffArguments& arguments) {
    require_folder_of_keys(arguments.ignored_keys, {arguments.a, arguments.b});
    const std::set<std::string> keys(arguments.ignored_keys.begin(), arguments.ignored_keys.end());
    const OpenedTensors a = open_tensors(arguments.a, keys), b = open_tensors(arguments.b, keys);
    verify(a);
    verify(b);
    std::cout << "A  " << (a.note.empty() ? a.path : a.note) << "\nB  " << (b.note.empty() ? b.path : b.note)
              << '\n';
    Findings findings;
    compare(a.weights(), b.weights(), "", findings);
    compare_moments(a, b, findings);
    for (const std::string& line : findings.structure) std::cout << line << '\n';
    print_differing(findings.differing, arguments.limit);
    const std::size_t unequal = findings.structure.size() + findings.differing.size();
    std::cout << findings.equal << " tensors equal, " << unequal << " differ\n";
    return unequal == 0 ? 0 : 1;
}

}  // namespace

void add_ckpt_diff_command(CLI::App& ckpt, std::function<int()>& action) {
    auto arguments = std::make_shared<DiffArguments>();
    CLI::App* command = ckpt.add_subcommand(
        "diff",
        "Name the tensors that differ, and by how much; ends with 1 if any does. A and B: run folder "
        "(its newest checkpoint), step folder, Hugging Face folder, or file of train --save-weights");
    command->add_option("a", arguments->a, "One")->required();
    command->add_option("b", arguments->b, "The other")->required();
    add_ignored_keys(*command, arguments->ignored_keys);
    command->add_option("--limit", arguments->limit, "Show so many of the tensors that differ most; 0: all")
        ->check(whole_number(0))
        ->capture_default_str();
    command->callback([arguments, &action] { action = [arguments] { return run_diff(*arguments); }; });
}

}  // namespace escalier::apps
