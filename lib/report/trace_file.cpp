#include "report/trace_file.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

namespace escalier::report {

namespace {

constexpr std::array<const char*, trace_streams> stream_names = {
    "steps",         "compute",    "tensor collectives", "messages sent", "messages received",
    "gradient sums", "reductions", "optimizer",          "data",          "checkpoint writer"};

struct KindText {
    const char* name;
    const char* category;
};

KindText text_of(TraceKind kind) {
    switch (kind) {
        case TraceKind::step:
            return {"step", "step"};
        case TraceKind::forward:
            return {"F", "forward"};
        case TraceKind::backward:
            return {"B", "backward"};
        case TraceKind::input_gradients:
            return {"I", "input_gradient"};
        case TraceKind::weight_gradients:
            return {"W", "weight_gradient"};
        case TraceKind::bubble:
            return {"bubble", "bubble"};
        case TraceKind::message_wait:
            return {"wait for message", "communication"};
        case TraceKind::room_wait:
            return {"wait for room to send", "communication"};
        case TraceKind::tail:
            return {"wait for the last pipeline rank", "bubble"};
        case TraceKind::tensor_collective:
            return {"tensor sum", "communication"};
        case TraceKind::activation:
            return {"activation", "message"};
        case TraceKind::gradient:
            return {"gradient", "message"};
        case TraceKind::gradient_sum:
            return {"gradient sum", "reduction"};
        case TraceKind::reduction:
            return {"reduction", "reduction"};
        case TraceKind::loss_sum:
            return {"sum of losses", "reduction"};
        case TraceKind::update:
            return {"optimizer", "optimizer"};
        case TraceKind::batch:
            return {"batch", "data"};
        case TraceKind::save:
            return {"checkpoint", "checkpoint"};
    }
    return {"?", "?"};
}

// Nanoseconds since the start of the trace, so that rounding neither makes nor closes gaps.
struct Slice {
    std::int64_t start, end;
    const TraceSpan* span;
    int track = 0;

    std::int64_t first_inside() const { return std::min(start + 1, end); }
    std::int64_t last_inside() const { return std::max(end - 1, start); }
};

struct Rank {
    const RankTrace* trace;
    std::array<std::vector<Slice>, trace_streams> streams;

    std::vector<Slice>& of(TraceStream stream) { return streams[static_cast<std::size_t>(stream)]; }
};

std::string micros(std::int64_t nanoseconds) {
    return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
}

// The stage from which a message leaves, going by the action at the end where it is.
int sending_stage(const TraceSpan& span) {
    if (span.stream == TraceStream::sent) return span.stage;
    return span.kind == TraceKind::activation ? span.stage - 1 : span.stage + 1;
}

int receiving_stage(const TraceSpan& span) {
    return sending_stage(span) + (span.kind == TraceKind::activation ? 1 : -1);
}

class Writer {
 public:
    explicit Writer(const std::vector<RankTrace>& ranks) {
        double origin = std::numeric_limits<double>::infinity();
        for (const RankTrace& rank : ranks)
            for (const TraceSpan& span : rank.spans)
                origin = std::min(origin, span.start + rank.clock_offset);
        for (const RankTrace& rank : ranks) {
            Rank& own = ranks_.emplace_back(Rank{&rank, {}});
            for (const TraceSpan& span : rank.spans) {
                const auto at = [&](double seconds) {
                    return static_cast<std::int64_t>(
                        std::llround(1e9 * (seconds + rank.clock_offset - origin)));
                };
                const std::int64_t start = at(span.start);
                own.of(span.stream).push_back({start, std::max(start, at(span.end)), &span});
            }
        }
    }

    std::string write() {
        shorten_receives();
        for (Rank& rank : ranks_) describe(rank);
        for (Rank& rank : ranks_)
            for (const auto& stream : rank.streams)
                for (const Slice& slice : stream) add(slice, *rank.trace);
        add_arrows();
        nlohmann::ordered_json other = {{"made_by", "escalier"}, {"ranks", ranks_.size()}};
        std::int64_t dropped = 0;
        for (const Rank& rank : ranks_) dropped += rank.trace->dropped;
        other["spans_left_out"] = dropped;
        return "{\"displayTimeUnit\":\"ms\",\"otherData\":" + other.dump() + ",\"traceEvents\":[\n" +
               events_ + "\n]}\n";
    }

 private:
    // Of a message: step, replica, tensor rank, gradient or not, stage that sends it, micro-batch.
    using Message = std::tuple<std::int64_t, int, int, bool, int, int>;

    static Message message_of(const TraceSpan& span, const RankTrace& rank) {
        return {span.step,           rank.dp_rank,    rank.tp_rank, span.kind == TraceKind::gradient,
                sending_stage(span), span.micro_batch};
    }

    // A receive is posted long before its message is sent.
    void shorten_receives() {
        std::map<Message, std::int64_t> sent;
        for (Rank& rank : ranks_)
            for (const Slice& slice : rank.of(TraceStream::sent))
                sent[message_of(*slice.span, *rank.trace)] = slice.start;
        for (Rank& rank : ranks_)
            for (Slice& slice : rank.of(TraceStream::received)) {
                const auto found = sent.find(message_of(*slice.span, *rank.trace));
                if (found != sent.end())
                    slice.start = std::min(std::max(slice.start, found->second), slice.end);
            }
    }

    void event(const std::string& text) { events_ += (events_.empty() ? "" : ",\n") + text; }

    void metadata(const char* what, int pid, int tid, const nlohmann::ordered_json& args) {
        event(fmt::format("{{\"name\":\"{}\",\"ph\":\"M\",\"pid\":{},\"tid\":{},\"args\":{}}}", what, pid,
                          tid, args.dump()));
    }

    // Names a rank and its tracks, and hands its slices out to them: each goes to the first track that is
    // free.
    void describe(Rank& rank) {
        const RankTrace& t = *rank.trace;
        metadata("process_name", t.rank, 0,
                 {{"name", fmt::format("rank {} (tp {} dp {} pp {}) on {}", t.rank, t.tp_rank, t.dp_rank,
                                       t.pp_rank, t.host)}});
        metadata("process_sort_index", t.rank, 0, {{"sort_index", t.rank}});
        for (std::size_t s = 0; s < rank.streams.size(); ++s) {
            std::vector<Slice>& slices = rank.streams[s];
            std::stable_sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
                return std::tie(a.start, a.end) < std::tie(b.start, b.end);
            });
            std::vector<std::int64_t> ends;
            const int first = tracks_ + 1;
            for (Slice& slice : slices) {
                const auto free = std::find_if(ends.begin(), ends.end(),
                                               [&](std::int64_t end) { return end <= slice.start; });
                slice.track = first + static_cast<int>(free - ends.begin());
                if (free == ends.end())
                    ends.push_back(slice.end);
                else
                    *free = slice.end;
            }
            for (std::size_t lane = 0; lane < ends.size(); ++lane) {
                const int tid = ++tracks_;  // unique over all ranks: importers name tracks by it alone
                metadata("thread_name", t.rank, tid,
                         {{"name",
                           lane == 0 ? stream_names[s] : fmt::format("{} ({})", stream_names[s], lane + 1)}});
                metadata("thread_sort_index", t.rank, tid, {{"sort_index", tid}});
            }
        }
    }

    static nlohmann::ordered_json arguments(const TraceSpan& span) {
        nlohmann::ordered_json args = {{"step", span.step}};
        const bool message = span.stream == TraceStream::sent || span.stream == TraceStream::received;
        if (message)
            args["from_stage"] = sending_stage(span), args["to_stage"] = receiving_stage(span);
        else if (span.stage >= 0)
            args["stage"] = span.stage;
        if (span.chunk >= 0) args["chunk"] = span.chunk;
        if (span.micro_batch >= 0) args["micro_batch"] = span.micro_batch;
        if (span.amount > 0) args["elements"] = span.amount;
        return args;
    }

    void add(const Slice& slice, const RankTrace& rank) {
        const TraceSpan& span = *slice.span;
        const auto [name, category] = text_of(span.kind);
        std::string title = name;
        if (span.kind == TraceKind::step)
            title += fmt::format(" {}", span.step);
        else if (span.micro_batch >= 0)
            title += fmt::format(" {}", span.micro_batch);
        event(
            fmt::format("{{\"name\":\"{}\",\"cat\":\"{}\",\"ph\":\"X\",\"ts\":{},\"dur\":{},\"pid\":{},"
                        "\"tid\":{},\"args\":{}}}",
                        title, category, micros(slice.start), micros(slice.end - slice.start), rank.rank,
                        slice.track, arguments(span).dump()));
    }

    void add_arrows() {
        struct End {
            const Slice* slice;
            int rank;
        };
        std::map<Message, End> sent;
        for (Rank& rank : ranks_)
            for (const Slice& slice : rank.of(TraceStream::sent))
                sent[message_of(*slice.span, *rank.trace)] = {&slice, rank.trace->rank};
        std::int64_t id = 0;
        for (Rank& rank : ranks_)
            for (const Slice& slice : rank.of(TraceStream::received)) {
                const auto found = sent.find(message_of(*slice.span, *rank.trace));
                if (found == sent.end()) continue;
                const auto& [from, from_rank] = found->second;
                const char* name = text_of(slice.span->kind).name;
                ++id;
                const auto arrow = [&](const char* phase, std::int64_t at, int pid, int tid) {
                    event(
                        fmt::format("{{\"name\":\"{}\",\"cat\":\"message\",\"ph\":{},\"id\":{},\"ts\":{},"
                                    "\"pid\":{},\"tid\":{}}}",
                                    name, phase, id, micros(at), pid, tid));
                };
                arrow("\"s\"", from->first_inside(), from_rank, from->track);
                arrow("\"f\",\"bp\":\"e\"", slice.last_inside(), rank.trace->rank, slice.track);
            }
    }

    std::vector<Rank> ranks_;
    int tracks_ = 0;
    std::string events_;
};

}  // namespace

std::string trace_json(const std::vector<RankTrace>& ranks) {
    return Writer(ranks).write();
}

}  // namespace escalier::report
