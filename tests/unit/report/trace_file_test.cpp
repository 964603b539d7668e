#include "report/trace_file.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

namespace escalier::report {
namespace {

using nlohmann::json;

TraceSpan span(TraceStream stream, TraceKind kind, double start, double end, int stage = 0,
               int micro_batch = 0) {
    TraceSpan result;
    result.start = start;
    result.end = end;
    result.step = 3;
    result.stage = stage;
    result.micro_batch = micro_batch;
    result.stream = stream;
    result.kind = kind;
    return result;
}

RankTrace rank(int number, double clock_offset, std::vector<TraceSpan> spans) {
    return {number, 0, number, 0, "host\"" + std::to_string(number), clock_offset, 0, std::move(spans)};
}

std::vector<json> events(const std::vector<RankTrace>& ranks, const std::string& phase) {
    std::vector<json> found;
    const json trace = json::parse(trace_json(ranks));
    for (const json& event : trace["traceEvents"])
        if (event["ph"] == phase) found.push_back(event);
    return found;
}

TEST(TraceFile, ClocksOfOtherHostsAreSetRight) {
    // Rank 1's clock is 1000 s behind: what it calls 5 is 1005 for rank 0.
    const std::vector<RankTrace> ranks = {
        rank(0, 0, {span(TraceStream::sent, TraceKind::activation, 1005, 1005.5)}),
        rank(1, 1000, {span(TraceStream::received, TraceKind::activation, 4, 5.75, 1)})};
    const std::vector<json> slices = events(ranks, "X"), starts = events(ranks, "s"),
                            ends = events(ranks, "f");
    ASSERT_EQ(slices.size(), 2u);
    EXPECT_EQ(slices[0]["ts"], 1e6);  // the trace begins with rank 1's posting of the receive
    EXPECT_EQ(slices[1]["ts"], 1e6);  // yet a message's slice begins with its send
    EXPECT_EQ(slices[1]["dur"], 7.5e5);
    ASSERT_EQ(starts.size(), 1u);
    ASSERT_EQ(ends.size(), 1u);
    EXPECT_EQ(starts[0]["pid"], 0);
    EXPECT_EQ(ends[0]["pid"], 1);
    EXPECT_EQ(starts[0]["id"], ends[0]["id"]);
    EXPECT_NEAR(starts[0]["ts"].get<double>(), 1e6, 0.01);
    EXPECT_NEAR(ends[0]["ts"].get<double>(), 1.75e6, 0.01);
}

TEST(TraceFile, SlicesThatOverlapGoToTracksOfTheirOwn) {
    const std::vector<RankTrace> ranks = {
        rank(0, 0,
             {span(TraceStream::sent, TraceKind::gradient, 0, 2, 1, 0),
              span(TraceStream::sent, TraceKind::gradient, 1, 3, 1, 1),
              span(TraceStream::sent, TraceKind::gradient, 2, 4, 1, 2),
              span(TraceStream::compute, TraceKind::backward, 0, 1, 1, 0)})};
    std::map<int, std::string> names;
    for (const json& event : events(ranks, "M"))
        if (event["name"] == "thread_name") names[event["tid"]] = event["args"]["name"];
    std::vector<std::string> tracks;
    for (const json& event : events(ranks, "X")) tracks.push_back(names[event["tid"]]);
    EXPECT_EQ(tracks,
              (std::vector<std::string>{"compute", "messages sent", "messages sent (2)", "messages sent"}));
}

TEST(TraceFile, AMessageWhoseOtherEndIsMissingHasNoArrow) {
    const std::vector<RankTrace> ranks = {rank(0, 0, {span(TraceStream::sent, TraceKind::activation, 0, 1)})};
    EXPECT_TRUE(events(ranks, "s").empty());
    EXPECT_EQ(events(ranks, "X").size(), 1u);
}

TEST(TraceFile, ACollectionThatIsFullCountsWhatItDrops) {
    TraceBuffer buffer(2);
    for (int i = 0; i < 5; ++i) buffer.add(span(TraceStream::compute, TraceKind::forward, i, i + 1));
    EXPECT_EQ(buffer.spans().size(), 2u);
    EXPECT_EQ(buffer.dropped(), 3);
    RankTrace full = rank(0, 0, buffer.spans());
    full.dropped = buffer.dropped();
    EXPECT_EQ(json::parse(trace_json({full}))["otherData"]["spans_left_out"], 3);
}

TEST(TraceFile, NoSpanAtAllIsATraceToo) {
    EXPECT_EQ(events({rank(0, 0, {})}, "X").size(), 0u);
    EXPECT_EQ(events({rank(0, 0, {})}, "M").size(), 2u);
}

}  // namespace
}  // namespace escalier::report
