#include "train/side_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>
#include <tuple>
#include <utility>

#include "checkpoint/gather_text.h"
#include "train/read_rows.h"

namespace escalier::train {

namespace {

constexpr std::int64_t block_elements = std::int64_t{1} << 20;
constexpr std::int64_t small_elements = std::int64_t{1} << 22;  // of all tensors of both sides

auto key_of(Quantity quantity, std::int64_t order, const std::string& name) {
    return std::tuple(quantity, order, name);
}

std::int64_t overlap_begin(const Rect& box, const Rect& hull, std::int64_t first) {
    return std::max(box.row - hull.row, first);
}
std::int64_t overlap_end(const Rect& box, const Rect& hull, std::int64_t end) {
    return std::min(box.row - hull.row + box.rows, end);
}

}  // namespace

const char* quantity_name(Quantity quantity) {
    static constexpr const char* names[] = {"activation",   "activation gradient", "gradient",
                                            "first moment", "second moment",       "weight"};
    return names[static_cast<int>(quantity)];
}

SideTensors::SideTensors(comm::Communicator& world, std::array<Pieces, 2> pieces,
                         const std::array<parallel::GridPlace, 2>& places)
    : world_(world) {
    const std::vector<std::string> texts =
        checkpoint::all_gather_text(own_text(pieces, places), world, "list of tensors");
    for (std::size_t rank = 0; rank < texts.size(); ++rank) take_in(texts[rank], static_cast<int>(rank));
    find_owners();
    for (int side = 0; side < 2; ++side)
        for (SidePiece& piece : pieces[static_cast<std::size_t>(side)]) {
            const auto at = std::lower_bound(entries_.begin(), entries_.end(),
                                             key_of(piece.quantity, piece.order, piece.name),
                                             [](const TensorEntry& entry, const auto& key) {
                                                 return key_of(entry.quantity, entry.order, entry.name) < key;
                                             });
            const std::vector<Holder>& holders = at->holders[static_cast<std::size_t>(side)];
            const auto mine = std::find_if(holders.begin(), holders.end(), [&](const Holder& holder) {
                return holder.world_rank == world.rank() && holder.box == piece.box &&
                       holder.stage_copy == piece.stage_copy;
            });
            locals_.push_back({static_cast<std::size_t>(at - entries_.begin()), side,
                               static_cast<std::size_t>(mine - holders.begin()), std::move(piece)});
        }
    fetch_all_if_small();
}

void SideTensors::fetch_all_if_small() {
    std::int64_t elements = 0;
    for (const TensorEntry& entry : entries_) elements += 2 * entry.hull.rows * entry.hull.columns;
    if (elements > small_elements) return;
    std::vector<float> all;
    all.reserve(static_cast<std::size_t>(elements));
    std::array<std::vector<std::vector<float>>, 2> own;
    for (std::size_t side = 0; side < 2; ++side)
        for (const TensorEntry& entry : entries_)
            own[side].emplace_back(static_cast<std::size_t>(entry.hull.rows * entry.hull.columns), 0.0f);
    for (const Local& local : locals_)
        if (counts(local, Terms::owners))
            add_rows(local, 0, entries_[local.entry].hull.rows,
                     own[static_cast<std::size_t>(local.side)][local.entry]);
    for (const auto& tensors : own)
        for (const auto& tensor : tensors) all.insert(all.end(), tensor.begin(), tensor.end());
    world_.all_reduce_sum(TensorView(all.data(), DType::f32, {elements}), "tensors to compare");
    auto from = all.begin();
    for (auto& tensors : own)
        for (auto& tensor : tensors) {
            const auto end = from + static_cast<std::ptrdiff_t>(tensor.size());
            std::copy(from, end, tensor.begin());
            from = end;
        }
    small_ = std::move(own);
}

// One line per piece: side, place, quantity, order, box, stage copy, and the name behind a bar.
std::string SideTensors::own_text(const std::array<Pieces, 2>& pieces,
                                  const std::array<parallel::GridPlace, 2>& places) const {
    std::ostringstream out;
    for (std::size_t side = 0; side < 2; ++side)
        for (const SidePiece& piece : pieces[side]) {
            const parallel::GridPlace& place = places[side];
            out << side << ' ' << place.tp_rank << ' ' << place.dp_rank << ' ' << place.pp_rank << ' '
                << static_cast<int>(piece.quantity) << ' ' << piece.order << ' ' << piece.box.row << ' '
                << piece.box.column << ' ' << piece.box.rows << ' ' << piece.box.columns << ' '
                << piece.stage_copy << " |" << piece.name << '\n';
        }
    return out.str();
}

void SideTensors::take_in(const std::string& text, int world_rank) {
    std::istringstream in(text);
    std::string line;
    while (std::getline(in, line)) {
        const std::size_t bar = line.find('|');
        if (bar == std::string::npos) continue;  // the filling
        std::istringstream numbers(line.substr(0, bar));
        std::size_t side = 0;
        int quantity = 0;
        std::int64_t order = 0;
        Holder holder{world_rank, {}, {}, false, false};
        numbers >> side >> holder.place.tp_rank >> holder.place.dp_rank >> holder.place.pp_rank >> quantity >>
            order >> holder.box.row >> holder.box.column >> holder.box.rows >> holder.box.columns >>
            holder.stage_copy;
        const std::string name = line.substr(bar + 1);
        const auto key = key_of(static_cast<Quantity>(quantity), order, name);
        auto at = std::lower_bound(entries_.begin(), entries_.end(), key,
                                   [](const TensorEntry& entry, const auto& wanted) {
                                       return key_of(entry.quantity, entry.order, entry.name) < wanted;
                                   });
        if (at == entries_.end() || key_of(at->quantity, at->order, at->name) != key)
            at = entries_.insert(
                at, TensorEntry{static_cast<Quantity>(quantity), order, name, holder.box, {}, {}});
        Rect& hull = at->hull;
        const std::int64_t end_row = std::max(hull.row + hull.rows, holder.box.row + holder.box.rows);
        const std::int64_t end_column =
            std::max(hull.column + hull.columns, holder.box.column + holder.box.columns);
        hull.row = std::min(hull.row, holder.box.row);
        hull.column = std::min(hull.column, holder.box.column);
        hull.rows = end_row - hull.row;
        hull.columns = end_column - hull.column;
        at->holders[side].push_back(holder);
    }
}

void SideTensors::find_owners() {
    for (TensorEntry& entry : entries_)
        for (std::size_t side = 0; side < 2; ++side) {
            std::vector<Holder>& holders = entry.holders[side];
            std::int64_t covered = 0;
            for (std::size_t i = 0; i < holders.size(); ++i) {
                if (holders[i].stage_copy) continue;
                const auto earlier =
                    std::find_if(holders.begin(), holders.begin() + static_cast<std::ptrdiff_t>(i),
                                 [&](const Holder& h) { return !h.stage_copy && h.box == holders[i].box; });
                holders[i].owner = earlier == holders.begin() + static_cast<std::ptrdiff_t>(i);
                if (holders[i].owner) covered += holders[i].box.rows * holders[i].box.columns;
            }
            entry.whole[side] = covered == entry.hull.rows * entry.hull.columns;
        }
}

std::int64_t SideTensors::block_rows(std::size_t entry) const {
    const Rect& hull = entries_[entry].hull;
    return std::clamp<std::int64_t>(block_elements / std::max<std::int64_t>(1, hull.columns), 1, hull.rows);
}

void SideTensors::add_rows(const Local& local, std::int64_t first, std::int64_t rows,
                           std::vector<float>& out) const {
    const Rect& hull = entries_[local.entry].hull;
    const Rect& box = local.piece.box;
    const std::int64_t begin = overlap_begin(box, hull, first), end = overlap_end(box, hull, first + rows);
    if (begin >= end) return;
    std::vector<float> own(static_cast<std::size_t>((end - begin) * box.columns));
    read_rows(local.piece.device, local.piece.view, begin - (box.row - hull.row), end - begin, own.data());
    for (std::int64_t row = begin; row < end; ++row) {
        const float* from = own.data() + (row - begin) * box.columns;
        float* to = out.data() + (row - first) * hull.columns + (box.column - hull.column);
        for (std::int64_t i = 0; i < box.columns; ++i) to[i] += from[i];
    }
}

bool SideTensors::counts(const Local& local, Terms terms) const {
    const std::vector<Holder>& holders = entries_[local.entry].holders[static_cast<std::size_t>(local.side)];
    const Holder& mine = holders[local.holder];
    const auto owner = std::find_if(holders.begin(), holders.end(),
                                    [&](const Holder& h) { return h.owner && h.box == mine.box; });
    if (owner == holders.end()) return false;
    const bool same_stage = !mine.stage_copy && owner->place.pp_rank == mine.place.pp_rank;
    switch (terms) {
        case Terms::owners:
            return mine.owner;
        case Terms::tensor_ranks:
            return same_stage && owner->place.dp_rank == mine.place.dp_rank;
        case Terms::replicas:
            return same_stage && owner->place.tp_rank == mine.place.tp_rank;
        case Terms::copies:
            return !mine.stage_copy && owner->place.dp_rank == mine.place.dp_rank &&
                   owner->place.tp_rank == mine.place.tp_rank;
        case Terms::received: {
            const auto first = std::find_if(holders.begin(), holders.end(), [&](const Holder& h) {
                return h.stage_copy && h.box == mine.box;
            });
            return first == holders.begin() + static_cast<std::ptrdiff_t>(local.holder);
        }
        case Terms::tied:
            return mine.owner || (mine.stage_copy && owner->place.dp_rank == mine.place.dp_rank &&
                                  owner->place.tp_rank == mine.place.tp_rank);
    }
    return false;
}

void SideTensors::fetch(std::size_t entry, int side, std::int64_t first, std::int64_t rows, Terms terms,
                        std::vector<float>& out) {
    const std::int64_t columns = entries_[entry].hull.columns, elements = rows * columns;
    if (terms == Terms::owners && !small_[0].empty()) {
        const auto begin = small_[static_cast<std::size_t>(side)][entry].begin() + first * columns;
        out.assign(begin, begin + elements);
        return;
    }
    out.assign(static_cast<std::size_t>(elements), 0.0f);
    for (const Local& local : locals_)
        if (local.entry == entry && local.side == side && counts(local, terms))
            add_rows(local, first, rows, out);
    world_.all_reduce_sum(TensorView(out.data(), DType::f32, {elements}), "rows of tensors to compare");
}

double SideTensors::deviation(const Local& local, std::int64_t first, std::int64_t rows,
                              const std::vector<float>& whole) const {
    std::vector<float> own(whole.size(), 0.0f);
    add_rows(local, first, rows, own);
    const Rect& hull = entries_[local.entry].hull;
    const Rect& box = local.piece.box;
    double largest = 0;
    for (std::int64_t row = overlap_begin(box, hull, first); row < overlap_end(box, hull, first + rows);
         ++row)
        for (std::int64_t i = 0; i < box.columns; ++i) {
            const auto at =
                static_cast<std::size_t>((row - first) * hull.columns + box.column - hull.column + i);
            if (std::memcmp(&own[at], &whole[at], sizeof(float)) == 0) continue;
            const double difference = std::abs(static_cast<double>(own[at]) - static_cast<double>(whole[at]));
            largest = std::isfinite(difference)
                          ? std::max({largest, difference, std::numeric_limits<double>::min()})
                          : std::numeric_limits<double>::infinity();
        }
    return largest;
}

void SideTensors::write_rows(const Local& local, std::int64_t first, std::int64_t rows,
                             const std::vector<float>& whole) const {
    const Rect& hull = entries_[local.entry].hull;
    const Rect& box = local.piece.box;
    const std::int64_t begin = overlap_begin(box, hull, first), end = overlap_end(box, hull, first + rows);
    if (begin >= end) return;
    std::vector<float> own;
    for (std::int64_t row = begin; row < end; ++row) {
        const auto from = whole.begin() + (row - first) * hull.columns + (box.column - hull.column);
        own.insert(own.end(), from, from + box.columns);
    }
    const TensorView part = local.piece.view.rows(begin - (box.row - hull.row), end - begin);
    ESCALIER_CHECK(part.dtype() == DType::f32 && local.piece.device, "weights and moments are fp32");
    local.piece.device->copy_from_host(part.data(), own.data(), part.bytes());
}

void SideTensors::hand_over() {
    std::vector<float> whole;
    for (std::size_t entry = 0; entry < entries_.size(); ++entry) {
        const Quantity quantity = entries_[entry].quantity;
        if (quantity == Quantity::gradient || is_stream(quantity)) continue;
        const std::int64_t all = entries_[entry].hull.rows, step = block_rows(entry);
        for (std::int64_t first = 0; first < all; first += step) {
            const std::int64_t rows = std::min(step, all - first);
            fetch(entry, 0, first, rows, Terms::owners, whole);
            for (const Local& local : locals_)
                if (local.entry == entry && local.side == 1) write_rows(local, first, rows, whole);
        }
    }
}

SideTensors::Deviations SideTensors::deviations() {
    std::vector<double> flat;
    std::array<std::vector<std::size_t>, 2> begins;
    for (std::size_t side = 0; side < 2; ++side)
        for (const TensorEntry& entry : entries_) {
            begins[side].push_back(flat.size());
            flat.resize(flat.size() + entry.holders[side].size(), 0.0);
        }
    std::vector<float> whole;
    for (std::size_t entry = 0; entry < entries_.size(); ++entry)
        for (std::size_t side = 0; side < 2; ++side) {
            const std::vector<Holder>& holders = entries_[entry].holders[side];
            if (std::all_of(holders.begin(), holders.end(), [](const Holder& h) { return h.owner; }))
                continue;
            const std::int64_t all = entries_[entry].hull.rows, step = block_rows(entry);
            for (std::int64_t first = 0; first < all; first += step) {
                const std::int64_t rows = std::min(step, all - first);
                fetch(entry, static_cast<int>(side), first, rows, Terms::owners, whole);
                for (const Local& local : locals_)
                    if (local.entry == entry && local.side == static_cast<int>(side)) {
                        double& value = flat[begins[side][entry] + local.holder];
                        value = std::max(value, deviation(local, first, rows, whole));
                    }
            }
        }
    if (!flat.empty())
        world_.all_reduce_max(TensorView(flat.data(), DType::f64, {static_cast<std::int64_t>(flat.size())}),
                              "differences between copies");
    Deviations out;
    for (std::size_t side = 0; side < 2; ++side)
        for (std::size_t entry = 0; entry < entries_.size(); ++entry) {
            const auto begin = flat.begin() + static_cast<std::ptrdiff_t>(begins[side][entry]);
            out[side].emplace_back(begin,
                                   begin + static_cast<std::ptrdiff_t>(entries_[entry].holders[side].size()));
        }
    return out;
}

}  // namespace escalier::train
