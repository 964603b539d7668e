#include "comm/timeout_message.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace escalier::comm {

namespace {

constexpr std::size_t listed = 5;  // ranks beside the root

std::string seconds(double s) {
    return std::to_string(std::lround(s)) + " s";
}

// What is known of the ranks, with the words for it.
class Ranks {
 public:
    Ranks(const std::vector<SeenReport>& seen, double silent_after_s)
        : seen_(seen), silent_after_s_(silent_after_s) {}

    int size() const { return static_cast<int>(seen_.size()); }
    const SeenReport& at(int rank) const { return seen_[static_cast<std::size_t>(rank)]; }
    const RankReport& report(int rank) const { return at(rank).report; }
    bool heard(int rank) const { return at(rank).seen_s >= 0; }
    bool silent(int rank) const { return !heard(rank) || at(rank).seen_s > silent_after_s_; }
    bool waits(int rank) const { return !silent(rank) && report(rank).waiting_s >= 0; }
    double waited_s(int rank) const { return report(rank).waiting_s + at(rank).seen_s; }

    // The rank that `rank` waits for: of a group the one that keeps the others waiting, which is not in the
    // same wait. -1: none that is known.
    int awaited(int rank) const;
    std::string name(int rank) const;
    std::string wait(int rank) const;  // "waits for …, from rank 4"
    std::string state(
        int rank) const;  // of one that is silent or does not wait: "has been in F(4,3) for 31 s"

 private:
    bool same_wait(int a, int b) const {
        return waits(b) && report(a).awaited == report(b).awaited &&
               std::strcmp(report(a).label, report(b).label) == 0;
    }

    const std::vector<SeenReport>& seen_;
    double silent_after_s_;
};

int Ranks::awaited(int rank) const {
    const RankSet& set = report(rank).awaited;
    if (set.count == 1) return set.first < size() && set.first != rank ? set.first : -1;
    int found = -1;
    const auto urgency = [&](int r) { return silent(r) ? 2 : !waits(r) ? 1 : 0; };
    for (int r = 0; r < size(); ++r) {
        if (r == rank || !set.contains(r) || same_wait(rank, r)) continue;
        const bool better = found < 0 || urgency(r) > urgency(found) ||
                            (urgency(r) == 0 && urgency(found) == 0 && waited_s(r) > waited_s(found));
        if (better) found = r;
    }
    return found;
}

std::string Ranks::name(int rank) const {
    std::string name = "rank " + std::to_string(rank);
    if (heard(rank)) name += std::string(" (") + report(rank).host + ")";
    return name;
}

std::string Ranks::wait(int rank) const {
    const RankReport& own = report(rank);
    const bool of_one = own.awaited.count == 1;
    std::string text = std::string("waits for ") + own.label;
    if (!of_one && own.activity.is_action()) text += " in " + own.activity.text();
    const int awaited_rank = awaited(rank);
    if (awaited_rank < 0) return text;
    text += (of_one ? ", from rank " : ", with rank ") + std::to_string(awaited_rank);
    if (!waits(awaited_rank)) text += ", which " + state(awaited_rank);
    return text;
}

std::string Ranks::state(int rank) const {
    const SeenReport& seen = at(rank);
    const ActivityReport& activity = seen.report.activity;
    if (!heard(rank) && !seen.knows_present) return "has never reported";
    const std::string silence =
        heard(rank) ? "has been silent for " + seconds(seen.seen_s) : "has never reported";
    if (!seen.knows_present && silent(rank))
        return silence + ", before that " +
               (seen.report.waiting_s >= 0 ? std::string("waiting for ") + seen.report.label
                                           : "in " + activity.text());
    if (silent(rank) && activity.waiting) return silence + ", before that waiting after " + activity.text();
    const double age = activity.seconds + (seen.knows_present ? 0 : seen.seen_s);
    return "has been in " + activity.text() + " for " + seconds(age) +
           (silent(rank) ? " and " + silence : std::string());
}

// How many waits lie between `rank` and the root; size(): they lead elsewhere.
int distance(const Ranks& ranks, int rank, int root) {
    int steps = 0;
    while (rank != root && rank >= 0 && ranks.waits(rank) && steps < ranks.size()) {
        rank = ranks.awaited(rank);
        ++steps;
    }
    return rank == root ? steps : ranks.size();
}

// All ranks but the root, those that matter most first: not waiting, then near to the root.
std::vector<int> others(const Ranks& ranks, int root) {
    struct Entry {
        int rank, waits, distance;
    };
    std::vector<Entry> entries;
    for (int r = 0; r < ranks.size(); ++r)
        if (r != root) entries.push_back({r, ranks.waits(r), distance(ranks, r, root)});
    std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
        return a.waits != b.waits ? a.waits < b.waits : a.distance < b.distance;
    });
    std::vector<int> order;
    for (const Entry& entry : entries) order.push_back(entry.rank);
    return order;
}

}  // namespace

bool RankSet::contains(int rank) const {
    if (count == 0) return true;
    const int offset = rank - first;
    return offset >= 0 && offset % stride == 0 && offset / stride < count;
}

bool some_rank_is_silent(int rank, const std::vector<SeenReport>& seen, double silent_after_s) {
    const Ranks ranks(seen, silent_after_s);
    for (int r = 0; r < ranks.size(); ++r)
        if (r != rank && ranks.silent(r)) return true;
    return false;
}

bool some_rank_works(int rank, const std::vector<SeenReport>& seen, double silent_after_s) {
    const Ranks ranks(seen, silent_after_s);
    for (int r = 0; r < ranks.size(); ++r)
        if (r != rank && !ranks.silent(r) && !ranks.waits(r)) return true;
    return false;
}

int root_of_wait(int rank, const std::vector<SeenReport>& seen, double silent_after_s) {
    const Ranks ranks(seen, silent_after_s);
    for (int steps = 0; rank >= 0 && steps <= ranks.size(); ++steps) {
        if (!ranks.waits(rank)) return rank;
        rank = ranks.awaited(rank);
    }
    return -1;
}

std::string timeout_message(int rank, double timeout_s, const std::vector<SeenReport>& seen,
                            double silent_after_s, const std::string& setting) {
    const Ranks ranks(seen, silent_after_s);
    const int root = root_of_wait(rank, seen, silent_after_s);
    std::string message = root < 0 ? "all ranks answer, and they wait for one another"
                                   : ranks.name(root) + " " + ranks.state(root);
    message += "; rank " + std::to_string(rank) + " has waited " + seconds(ranks.waited_s(rank)) +
               ", longer than " + setting + " = " + seconds(timeout_s) + ".";
    const std::vector<int> order = others(ranks, root);
    const std::size_t shown = std::min(order.size(), listed);
    for (std::size_t i = 0; i < shown; ++i) {
        const int r = order[i];
        message += "\n  rank " + std::to_string(r) + " " + (ranks.waits(r) ? ranks.wait(r) : ranks.state(r));
    }
    if (order.size() > shown) {
        std::size_t waiting = 0;
        for (std::size_t i = shown; i < order.size(); ++i) waiting += ranks.waits(order[i]);
        message += "\n  and " + std::to_string(order.size() - shown) + " more ranks, of which " +
                   std::to_string(waiting) + " wait";
    }
    const bool stopped = root >= 0 && ranks.silent(root);
    return message +
           (stopped ? "\nLook for a stopped, swapping or overloaded process there, or raise "
                    : "\nIf it only needs longer, raise ") +
           setting + ".";
}

}  // namespace escalier::comm
