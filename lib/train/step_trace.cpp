#include "train/step_trace.h"

#include <algorithm>
#include <cstring>

namespace escalier::train {

namespace {

// What travels to rank 0: this, the spans, and the name of the host.
struct TraceHeader {
    double clock_offset = 0;
    std::int64_t dropped = 0;
    std::int64_t spans = 0;
};

// Most spans of one step: actions, a wait in two parts, messages, pieces of actions, buckets, phases and
// saves.
std::size_t most_spans(TrainStep& step) {
    const pipeline::StepTimes& times = step.pipeline_times();
    constexpr std::size_t phases = 8, saves = 8;
    return times.actions.capacity() + 2 * times.waits.capacity() + times.messages.capacity() +
           2 * times.stretches.capacity() + step.bucket_times().capacity() + phases + saves;
}

report::RankTrace unpacked(int rank, const parallel::GridPlace& place, const std::string& bytes) {
    TraceHeader header;
    std::memcpy(&header, bytes.data(), sizeof header);
    report::RankTrace trace;
    trace.rank = rank;
    trace.tp_rank = place.tp_rank;
    trace.pp_rank = place.pp_rank;
    trace.dp_rank = place.dp_rank;
    trace.clock_offset = header.clock_offset;
    trace.dropped = header.dropped;
    trace.spans.resize(static_cast<std::size_t>(header.spans));
    const std::size_t size = trace.spans.size() * sizeof(TraceSpan);
    if (size > 0) std::memcpy(trace.spans.data(), bytes.data() + sizeof header, size);
    trace.host = bytes.substr(sizeof header + size);
    return trace;
}

}  // namespace

StepTrace::StepTrace(Assembly& assembly, const StepReporter& reporter)
    : assembly_(assembly),
      reporter_(reporter),
      window_(assembly.spec().log.trace),
      chunk_of_place_(static_cast<std::size_t>(assembly.schedule().places()), -1),
      buffer_([&] {
          assembly.step().reserve_trace();
          return static_cast<std::size_t>(window_.steps) * most_spans(assembly.step());
      }()) {
    const auto pp_rank = static_cast<std::size_t>(assembly.groups().place.pp_rank);
    const std::vector<schedule::StageBuffers>& chunks = assembly.programs()[pp_rank].chunks;
    for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk)
        chunk_of_place_[static_cast<std::size_t>(chunks[chunk].copy * assembly.schedule().stages() +
                                                 chunks[chunk].stage)] = static_cast<int>(chunk);
}

void StepTrace::begin(std::int64_t step) {
    step_ = step;
    const bool inside = step >= window_.start && step < window_.start + window_.steps;
    if (inside != tracing_) assembly_.step().trace(inside);
    tracing_ = inside;
}

void StepTrace::end_reported(const StepResult& result) {
    if (!tracing_) return;
    const pipeline::StepTimes& times = assembly_.step().pipeline_times();
    add_actions(times);
    add_waits(times);
    add_messages(times);
    for (const optim::BucketTime& bucket : assembly_.step().bucket_times()) {
        TraceSpan sum = span(TraceStream::gradient_sums, TraceKind::gradient_sum, bucket.start, bucket.end);
        sum.stage = bucket.stage;
        sum.amount = bucket.elements;
        buffer_.add(sum);
    }
    add_phases(result);
    ++steps_done_;
}

TraceSpan StepTrace::span(TraceStream stream, TraceKind kind, double start, double end) const {
    TraceSpan span;
    span.start = start;
    span.end = end;
    span.step = step_;
    span.stream = stream;
    span.kind = kind;
    return span;
}

TraceSpan StepTrace::span_of(const schedule::Action& action, TraceStream stream, TraceKind kind, double start,
                             double end) const {
    TraceSpan span = this->span(stream, kind, start, end);
    span.stage = action.stage;
    span.micro_batch = action.micro_batch;
    span.chunk = chunk_of_place_[static_cast<std::size_t>(assembly_.schedule().place_of(action))];
    return span;
}

// An action is one slice, its collectives lie beside it; those of an overlapped pair run in turn, so that
// each is as many slices as pieces.
void StepTrace::add_actions(const pipeline::StepTimes& times) {
    const auto kind_of = [](const schedule::Action& action) {
        return static_cast<TraceKind>(static_cast<int>(TraceKind::forward) + static_cast<int>(action.kind));
    };
    const auto paired = [&](std::size_t i) {
        return times.actions[i].action.overlaps_next || (i > 0 && times.actions[i - 1].action.overlaps_next);
    };
    for (std::size_t i = 0; i < times.actions.size(); ++i) {
        const pipeline::ActionTime& time = times.actions[i];
        if (!paired(i))
            buffer_.add(
                span_of(time.action, TraceStream::compute, kind_of(time.action), time.start, time.end));
    }
    for (const pipeline::StretchTime& stretch : times.stretches) {
        const schedule::Action& action = times.actions[stretch.action].action;
        if (paired(stretch.action))
            buffer_.add(span_of(action, TraceStream::compute, kind_of(action), stretch.start, stretch.end));
        if (stretch.collective)
            buffer_.add(span_of(action, TraceStream::tensor, TraceKind::tensor_collective, stretch.start,
                                stretch.end));
    }
}

// As split_step counts them: bubble until the producer was done, communication after.
void StepTrace::add_waits(const pipeline::StepTimes& times) {
    const pipeline::ActionEnds& ends = reporter_.pipeline_ranks().ends();
    for (const pipeline::WaitTime& wait : times.waits) {
        const auto add = [&](TraceKind kind, double start, double end) {
            if (end > start) buffer_.add(span_of(wait.action, TraceStream::compute, kind, start, end));
        };
        if (wait.sending) {
            add(TraceKind::room_wait, wait.start, wait.end);
            continue;
        }
        const double produced =
            std::clamp(ends.producer_of(wait.action, wait.gradient), wait.start, wait.end);
        add(TraceKind::bubble, wait.start, produced);
        add(TraceKind::message_wait, produced, wait.end);
    }
}

void StepTrace::add_messages(const pipeline::StepTimes& times) {
    for (const pipeline::MessageTime& message : times.messages)
        buffer_.add(span_of(message.action, message.sending ? TraceStream::sent : TraceStream::received,
                            message.gradient ? TraceKind::gradient : TraceKind::activation, message.start,
                            message.end));
}

void StepTrace::add_phases(const StepResult& result) {
    const StepPhases& at = assembly_.step().phases();
    const bool updated = result.verdict == Verdict::update;
    const double end = updated ? at.optimizer : at.summed;
    const auto add = [&](TraceStream stream, TraceKind kind, double start, double stop) {
        if (stop > start) buffer_.add(span(stream, kind, start, stop));
    };
    add(TraceStream::steps, TraceKind::step, at.start, end);
    add(TraceStream::data, TraceKind::batch, at.start, at.start + result.data_wait);
    // The pipeline's last rank is waited for in whatever sum comes first.
    const double in_reduction = std::min(reporter_.tail(), at.reduced - at.computed);
    const double in_losses = reporter_.tail() - in_reduction;
    add(TraceStream::compute, TraceKind::tail, at.computed, at.computed + in_reduction);
    add(TraceStream::reductions, TraceKind::reduction, at.computed + in_reduction, at.reduced);
    add(TraceStream::compute, TraceKind::tail, at.summing, at.summing + in_losses);
    add(TraceStream::reductions, TraceKind::loss_sum, at.summing + in_losses, at.summed);
    if (updated) add(TraceStream::optimizer, TraceKind::update, at.optimizer_start, at.optimizer);
    if (steps_done_ == 0) first_start_ = at.start;
    last_end_ = end;
}

std::vector<report::RankTrace> StepTrace::gather(comm::MpiEnv& env) const {
    std::vector<TraceSpan> spans = buffer_.spans();
    for (const checkpoint::TaskTime& task : assembly_.saver().writer_times()) {
        TraceSpan save = span(TraceStream::writer, TraceKind::save, std::max(task.start, first_start_),
                              std::min(task.end, last_end_));
        if (save.end > save.start) spans.push_back(save);
    }
    const TraceHeader header{env.clock_offset(env.world()), buffer_.dropped(),
                             static_cast<std::int64_t>(spans.size())};
    std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
    bytes.append(reinterpret_cast<const char*>(spans.data()), spans.size() * sizeof(TraceSpan));
    bytes += env.place().host;
    std::vector<report::RankTrace> traces;
    env.gather_bytes(env.world(), bytes, "the traces of all ranks", [&](int rank, const std::string& theirs) {
        traces.push_back(unpacked(rank, assembly_.groups().grid.place_of(rank), theirs));
    });
    return traces;
}

}  // namespace escalier::train
