// Rules for the gradient of a table with one row per id: which rows differ tells what is wrong with them.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "train/diagnose.h"

namespace escalier::train {

namespace {

using Ids = std::set<std::int64_t>;

struct Rows {
    Ids wrong, right;  // right: and not zero
};

Rows rows_of(const TensorComparison& table) {
    Rows out;
    for (std::size_t row = 0; row < table.rows.size(); ++row) {
        const PairSums& sums = table.rows[row];
        const auto id = static_cast<std::int64_t>(row) + table.hull.row;
        if (sums.relative_difference() > alike)
            out.wrong.insert(id);
        else if (sums.aa > 0)
            out.right.insert(id);
    }
    return out;
}

// Ids that stand in the samples for which `counts` holds.
template <class Counts>
Ids ids_of(const StepEvidence& evidence, std::size_t samples, const Counts& counts) {
    Ids out;
    const std::size_t length = evidence.tokens.size() / samples;
    for (std::size_t i = 0; i < evidence.tokens.size(); ++i)
        if (counts(static_cast<std::int64_t>(i / length))) out.insert(evidence.tokens[i]);
    return out;
}

// Nine tenths of the one are in the other, and all of the other are in the one.
bool same_ids(const Ids& found, const Ids& wanted) {
    return !found.empty() && 10 * found.size() >= 9 * wanted.size() &&
           std::includes(wanted.begin(), wanted.end(), found.begin(), found.end());
}

// Which part of the batch the rows that differ belong to: "micro-batch 0".
std::string part_of_batch(const StepEvidence& evidence, const Ids& wrong) {
    const GridFacts& grid = evidence.grids[1];
    const std::int64_t samples = grid.micro_batches * grid.dp * grid.micro_batch;
    if (evidence.tokens.empty() || samples == 0) return "";
    const auto micro_batch = [&](std::int64_t sample) { return sample / (grid.micro_batch * grid.dp); };
    std::vector<std::string> fitting;
    const auto offer = [&](const std::string& name, const auto& counts) {
        if (same_ids(wrong, ids_of(evidence, static_cast<std::size_t>(samples), counts)))
            fitting.push_back(name);
    };
    for (std::int64_t rank = 0; grid.dp > 1 && rank < grid.dp; ++rank)
        offer(fmt::format("the samples of dp rank {}", rank),
              [&](std::int64_t sample) { return sample / grid.micro_batch % grid.dp == rank; });
    for (std::int64_t mb = 0; grid.micro_batches > 1 && mb < grid.micro_batches; ++mb)
        offer(fmt::format("micro-batch {} of {}", mb, grid.micro_batches),
              [&](std::int64_t sample) { return micro_batch(sample) == mb; });
    for (std::int64_t mb = 0; grid.micro_batches > 2 && mb < grid.micro_batches; ++mb)
        offer(fmt::format("all micro-batches but {}", mb),
              [&](std::int64_t sample) { return micro_batch(sample) != mb; });
    constexpr std::size_t most = 3;  // samples may hold the same ids
    std::string text;
    for (const std::string& name : fitting) text += (text.empty() ? "" : ", or in ") + name;
    return fitting.size() <= most ? text : "";
}

// Rows of one rank's shard that stand one or a few rows off.
MaybeDiagnosis shifted_rows(const TensorComparison& table) {
    for (std::size_t side = 0; side < 2; ++side)
        for (const BoxSums& box : table.boxes[side]) {
            if (box.worst <= 1) continue;
            for (const std::int64_t shift : {-1, 1, -2, 2}) {
                std::int64_t fits = 0, wanted = 0;
                for (std::int64_t row = box.box.row; row < box.box.row + box.box.rows; ++row) {
                    const std::int64_t from = row + shift;
                    if (from < box.box.row || from >= box.box.row + box.box.rows) continue;
                    const PairSums& own = table.rows[static_cast<std::size_t>(row)];
                    const PairSums& other = table.rows[static_cast<std::size_t>(from)];
                    const double here = side ? own.bb : own.aa, there = side ? other.aa : other.bb;
                    if (here == 0 && there == 0) continue;
                    ++wanted;
                    fits += near(here, there, alike);
                }
                if (wanted > 1 && fits * 10 >= wanted * 9)
                    return Diagnosis{
                        "vocabulary shard offset",
                        fmt::format("In rows {} to {} of {} (the shard of tensor rank {} of {}) stand "
                                    "the gradients of rows {} further: ids are looked up with a "
                                    "wrong offset of the shard.",
                                    box.box.row, box.box.row + box.box.rows - 1, table.name, box.tp_rank,
                                    side_name(side), shift)};
            }
        }
    return std::nullopt;
}

// Where the table is the head's too: whether the rows say which of the two parts is wrong.
std::string tied_part(const StepEvidence& evidence, const Rows& rows) {
    const Ids all(evidence.tokens.begin(), evidence.tokens.end());
    if (!rows.right.empty() && same_ids(rows.wrong, all))
        return " Only rows of ids that the model reads differ: the embedding's part is missing or counts "
               "twice, the head's is right.";
    return "";
}

}  // namespace

MaybeDiagnosis diagnose_table(const StepEvidence& evidence, const TensorComparison& table, bool tied) {
    if (MaybeDiagnosis found = shifted_rows(table)) return found;
    const Rows rows = rows_of(table);
    if (const std::string part = part_of_batch(evidence, rows.wrong); !part.empty())
        return Diagnosis{"missing samples",
                         fmt::format("Only the gradient of {} differs, and in it the rows of the ids that "
                                     "stand in {}: what these add to the embedding's gradient was never "
                                     "added, was overwritten, or counts twice.",
                                     table.name, part)};
    if (!tied) return std::nullopt;
    return Diagnosis{"missing tied sum",
                     fmt::format("Only the gradient of the tied {} differs: the parts that the embedding and "
                                 "the head leave in it are not added up once each.",
                                 table.name) +
                         tied_part(evidence, rows)};
}

// Wrong targets change the rows of some ids; a wrong product or softmax changes all.
bool only_targets_differ(const TensorComparison& head) {
    const Rows rows = rows_of(head);
    if (rows.wrong.empty() || rows.right.size() < 2) return false;
    for (std::size_t side = 0; side < 2; ++side)
        for (const BoxSums& box : head.boxes[side]) {
            const std::int64_t end = box.box.row + box.box.rows;
            const auto first = rows.right.lower_bound(box.box.row);
            if (first == rows.right.end() || *first >= end) return false;  // a shard as a whole
        }
    return true;
}

}  // namespace escalier::train
