#include "pipeline/executor.h"

#include <cstdio>
#include <utility>

#include "core/check.h"

namespace escalier::pipeline {

namespace {

using schedule::Action;
using schedule::ActionKind;
using schedule::Instruction;
using schedule::InstructionKind;

// A boundary tensor and the message that is under way from or into it.
struct Buffer {
    TensorView view;
    comm::Channel* channel = nullptr;
    int ticket = -1;      // -1: no message under way
    int message = -1;     // its place in StepTimes::messages; -1: not recorded
    bool unread = false;  // a message was received into it, or will be, that no action has used yet
    Action sent{};        // what filled it, of a message that is sent
};
using Ring = std::vector<Buffer>;

struct Chunk {
    model::Stage* stage = nullptr;
    int next_chunk = -1;
    int previous_chunk = -1;
    Ring inputs, outputs, output_gradients, input_gradients;
};

// An action under way, segment by segment.
struct Lane {
    model::Stage& stage;
    model::StageIo io;
    std::size_t action;          // its place in StepTimes::actions
    std::size_t next = 0;        // segment
    bool in_collective = false;  // `next` was started and is not finished

    std::span<const model::Segment> segments() const { return stage.segments(io.action.kind); }
    bool done() const { return next == segments().size(); }
};

// What the watchdog calls a wait: for what `action` needs, or for what it made to be taken.
struct WaitLabel {
    char text[64];
    WaitLabel(const Action& action, bool sending) {
        static constexpr char letters[] = {'F', 'B', 'I', 'W'};
        std::snprintf(text, sizeof text, "%s%c of stage %d, micro-batch %d", sending ? "room to send " : "",
                      letters[static_cast<int>(action.kind)], action.stage, action.micro_batch);
    }
};

comm::Doing doing(ActionKind kind) {
    static constexpr comm::Doing doings[] = {comm::Doing::forward, comm::Doing::backward,
                                             comm::Doing::input_gradients, comm::Doing::weight_gradients};
    return doings[static_cast<int>(kind)];
}

}  // namespace

struct Executor::State {
    explicit State(Clock& c) : clock(c) {}

    Clock& clock;
    schedule::Program program;
    std::vector<Chunk> chunks;
    std::vector<Buffer*> buffers;  // all of them, for polling in turn
    std::size_t next_polled = 0;
    std::function<void(int)> reduce;
    std::function<void()> poll;
    comm::Activity* activity = nullptr;
    StepTimes times;  // holds marks until they are settled
    bool settled = true;
    bool recording = false;  // messages too
    std::size_t marks = 0;   // most that a step takes, without those of messages

    void take_buffers(const std::vector<model::Stage*>& stages, DType storage, Shape boundary,
                      device::Arena& arena, Channels& channels);
    std::size_t most_stretches() const;
    void settle();
    void run(const Instruction& instruction);
    void compute(const Instruction& instruction);
    void compute_pair(const Instruction& first, const Instruction& second);
    model::Stage& stage_of(const Instruction& instruction) {
        return *chunks[static_cast<std::size_t>(instruction.chunk)].stage;
    }
    model::StageIo bind(const Instruction& instruction);
    std::size_t begin(const Action& action);
    void announce(const Action& action) {
        if (activity) activity->begin(doing(action.kind), action.stage, action.micro_batch);
    }
    void add_stretch(const Lane& lane, bool collective, double start);
    void run_segment(Lane& lane);
    void advance(Lane& lane);
    void poll_all();
    void started(Buffer& buffer, const Action& action, bool gradient, bool sending);
    void completed(Buffer& buffer);
    void finish(Buffer& buffer, const Action& action, bool gradient, bool sending);
    void poll_one_message();
    void drain();
};

void Executor::State::take_buffers(const std::vector<model::Stage*>& stages, DType storage, Shape boundary,
                                   device::Arena& arena, Channels& channels) {
    ESCALIER_CHECK(stages.size() == program.chunks.size(), "one stage model per chunk");
    const auto take = [&](Ring& ring, int count, comm::Channel* channel) {
        for (int i = 0; i < count; ++i) ring.push_back({arena.take(storage, boundary), channel, -1});
    };
    chunks.resize(stages.size());
    for (std::size_t c = 0; c < stages.size(); ++c) {
        const schedule::StageBuffers& sizes = program.chunks[c];
        Chunk& chunk = chunks[c];
        chunk.stage = stages[c];
        chunk.next_chunk = sizes.next_chunk;
        chunk.previous_chunk = sizes.previous_chunk;
        take(chunk.inputs, sizes.inputs, channels.activation(sizes.stage - 1, sizes.copy));
        take(chunk.outputs, sizes.outputs, channels.activation(sizes.stage, sizes.copy));
        take(chunk.output_gradients, sizes.output_gradients, channels.gradient(sizes.stage, sizes.copy));
        take(chunk.input_gradients, sizes.input_gradients, channels.gradient(sizes.stage - 1, sizes.copy));
    }
    for (Chunk& chunk : chunks)
        for (Ring* ring : {&chunk.inputs, &chunk.outputs, &chunk.output_gradients, &chunk.input_gradients})
            for (Buffer& buffer : *ring) buffers.push_back(&buffer);
}

void Executor::State::run(const Instruction& instruction) {
    Chunk& chunk = chunks[static_cast<std::size_t>(instruction.chunk)];
    const auto i = static_cast<std::size_t>(instruction.buffer);
    const auto require_free = [](const Buffer& buffer) {
        ESCALIER_CHECK(buffer.channel && buffer.ticket < 0, "a buffer is used twice at once");
    };
    const auto receive = [&](Buffer& buffer, bool gradient) {
        require_free(buffer);
        if (recording) started(buffer, instruction.action, gradient, false);
        buffer.ticket = buffer.channel->start_receive(buffer.view);
        buffer.unread = true;
    };
    const auto send = [&](Buffer& buffer, bool gradient) {
        require_free(buffer);
        clock.stamp(buffer.view, 2 * instruction.chunk + gradient);
        if (recording) started(buffer, instruction.action, gradient, true);
        buffer.sent = instruction.action;
        buffer.ticket = buffer.channel->start_send(buffer.view);
    };
    switch (instruction.kind) {
        case InstructionKind::receive_activation:
            return receive(chunk.inputs[i], false);
        case InstructionKind::receive_gradient:
            return receive(chunk.output_gradients[i], true);
        case InstructionKind::send_activation:
            return send(chunk.outputs[i], false);
        case InstructionKind::send_gradient:
            return send(chunk.input_gradients[i], true);
        case InstructionKind::compute:
            return compute(instruction);
        case InstructionKind::reduce_gradients:
            if (reduce) reduce(instruction.chunk);
    }
}

// The tensors of an action, once they are there and free to be written.
model::StageIo Executor::State::bind(const Instruction& instruction) {
    const schedule::Binding& binding = instruction.binding;
    const Action& action = instruction.action;
    Chunk& chunk = chunks[static_cast<std::size_t>(instruction.chunk)];
    model::StageIo io{action, binding, {}, {}, {}, {}};
    const auto ready = [&](TensorView& view, Ring& ring, int index, bool gradient, bool sending) {
        if (index < 0) return;
        Buffer& buffer = ring[static_cast<std::size_t>(index)];
        finish(buffer, action, gradient, sending);
        view = buffer.view;
    };
    ready(io.input, chunk.inputs, binding.input, false, false);
    ready(io.output_gradient, chunk.output_gradients, binding.output_gradient, true, false);
    Ring& outputs = binding.output_is_next_input ? chunks[static_cast<std::size_t>(chunk.next_chunk)].inputs
                                                 : chunk.outputs;
    ready(io.output, outputs, binding.output, false, true);
    Ring& input_gradients = binding.input_gradient_is_previous
                                ? chunks[static_cast<std::size_t>(chunk.previous_chunk)].output_gradients
                                : chunk.input_gradients;
    ready(io.input_gradient, input_gradients, binding.input_gradient, true, true);
    return io;
}

std::size_t Executor::State::begin(const Action& action) {
    times.actions.push_back({action, 0, 0, 0});
    return times.actions.size() - 1;
}

void Executor::State::compute(const Instruction& instruction) {
    model::StageIo io = bind(instruction);
    clock.enter(instruction.action);
    announce(instruction.action);
    Lane lane{stage_of(instruction), io, begin(instruction.action)};
    const double start = clock.now();
    double stretch = start;
    while (!lane.done()) {
        const model::SegmentType type = lane.segments()[lane.next].type;
        run_segment(lane);
        if (!lane.done() && lane.segments()[lane.next].type == type) continue;
        add_stretch(lane, type == model::SegmentType::collective, stretch);
        stretch = times.stretches.back().end;
    }
    times.actions[lane.action].start = start;
    times.actions[lane.action].end = stretch;
    clock.leave();
}

// Two actions of different chunks in turn: a collective of one runs behind a compute of the other.
void Executor::State::compute_pair(const Instruction& first, const Instruction& second) {
    model::StageIo first_io = bind(first), second_io = bind(second);
    clock.enter(first.action);
    Lane a{stage_of(first), first_io, begin(first.action)};
    Lane b{stage_of(second), second_io, begin(second.action)};
    const double start = clock.now();
    while (!a.done() || !b.done()) {
        if (!a.done()) advance(a);
        if (!b.done()) advance(b);
    }
    const double end = clock.now();
    for (const Lane* lane : {&a, &b}) {
        times.actions[lane->action].start = start;
        times.actions[lane->action].end = end;
    }
    clock.leave();
}

void Executor::State::add_stretch(const Lane& lane, bool collective, double start) {
    times.stretches.push_back({lane.action, collective, start, clock.now()});
}

void Executor::State::run_segment(Lane& lane) {
    if (lane.next > 0) poll_all();
    lane.stage.run(static_cast<int>(lane.next), lane.io);
    ++lane.next;
}

// One segment further; what a collective begins is ended at the lane's next turn.
void Executor::State::advance(Lane& lane) {
    announce(lane.io.action);
    if (lane.in_collective) {
        const double start = clock.now();
        lane.stage.finish(static_cast<int>(lane.next++), lane.io);
        lane.in_collective = false;
        add_stretch(lane, true, start);
        if (lane.done()) return;
    }
    const double start = clock.now();
    const bool collective = lane.segments()[lane.next].type == model::SegmentType::collective;
    lane.in_collective = collective && lane.stage.start(static_cast<int>(lane.next), lane.io);
    if (!lane.in_collective) run_segment(lane);
    add_stretch(lane, collective, start);
}

// Turns marks into seconds.
void Executor::State::settle() {
    if (settled) return;
    const auto resolve = [&](double& mark) { mark = clock.seconds(mark); };
    resolve(times.start);
    resolve(times.end);
    for (ActionTime& action : times.actions) {
        resolve(action.start);
        resolve(action.end);
    }
    for (WaitTime& wait : times.waits) {
        resolve(wait.start);
        resolve(wait.end);
    }
    for (MessageTime& message : times.messages) {
        resolve(message.start);
        resolve(message.end);
    }
    for (StretchTime& stretch : times.stretches) {
        resolve(stretch.start);
        resolve(stretch.end);
        const double seconds = stretch.end - stretch.start;
        (stretch.collective ? times.tensor_collectives : times.compute) += seconds;
        times.actions[stretch.action].work += seconds;
    }
    settled = true;
}

// Every segment may be a stretch, and a background collective is two.
std::size_t Executor::State::most_stretches() const {
    std::size_t count = 0;
    for (const Instruction& instruction : program.instructions) {
        if (instruction.kind != InstructionKind::compute) continue;
        const model::Stage& stage = *chunks[static_cast<std::size_t>(instruction.chunk)].stage;
        count += 2 * stage.segments(instruction.action.kind).size();
    }
    return count;
}

void Executor::State::poll_all() {
    poll_one_message();
    if (poll) poll();
}

void Executor::State::started(Buffer& buffer, const Action& action, bool gradient, bool sending) {
    buffer.message = static_cast<int>(times.messages.size());
    times.messages.push_back({action, gradient, sending, clock.now(), 0});
}

void Executor::State::completed(Buffer& buffer) {
    buffer.ticket = -1;
    if (buffer.message < 0) return;
    times.messages[static_cast<std::size_t>(buffer.message)].end = clock.now();
    buffer.message = -1;
}

void Executor::State::finish(Buffer& buffer, const Action& action, bool gradient, bool sending) {
    WaitTime wait{action, gradient, sending, clock.now(), 0};
    bool waited = false;
    if (buffer.ticket >= 0 && !buffer.channel->done(buffer.ticket)) {
        buffer.channel->wait(buffer.ticket, WaitLabel(sending ? buffer.sent : action, sending).text);
        waited = true;
    }
    completed(buffer);
    if (buffer.unread && clock.read(buffer.view)) waited = true;
    buffer.unread = false;
    if (!waited) return;
    wait.end = clock.now();
    times.waits.push_back(wait);
}

// One test moves all messages; which one it asks about hardly matters.
void Executor::State::poll_one_message() {
    for (std::size_t tried = 0; tried < buffers.size(); ++tried) {
        Buffer& buffer = *buffers[next_polled];
        next_polled = (next_polled + 1) % buffers.size();
        if (buffer.ticket < 0) continue;
        if (buffer.channel->done(buffer.ticket)) completed(buffer);
        return;
    }
}

void Executor::State::drain() {
    for (Chunk& chunk : chunks) {
        for (Buffer& buffer : chunk.outputs) finish(buffer, buffer.sent, false, true);
        for (Buffer& buffer : chunk.input_gradients) finish(buffer, buffer.sent, true, true);
    }
}

Executor::Executor(schedule::Program program, std::vector<model::Stage*> stages, DType storage,
                   Shape boundary, device::Arena& arena, Channels& channels, Clock& clock,
                   std::function<void(int chunk)> reduce, std::function<void()> poll,
                   comm::Activity* activity)
    : state_(std::make_unique<State>(clock)) {
    state_->program = std::move(program);
    state_->reduce = std::move(reduce);
    state_->poll = std::move(poll);
    state_->activity = activity;
    state_->take_buffers(stages, storage, boundary, arena, channels);
    std::size_t actions = 0;
    for (const Instruction& instruction : state_->program.instructions)
        actions += instruction.kind == InstructionKind::compute;
    state_->times.actions.reserve(actions);
    state_->times.waits.reserve(4 * actions + state_->buffers.size());
    state_->times.stretches.reserve(state_->most_stretches());
    // A stretch takes two marks at most, an action two, a wait two, and so does the step.
    state_->marks = 2 * (state_->times.stretches.capacity() + actions + state_->times.waits.capacity() + 1);
    if (!arena.measuring()) clock.reserve(state_->marks);
}

Executor::~Executor() = default;

void Executor::run_step() {
    StepTimes& times = state_->times;
    times.actions.clear();
    times.waits.clear();
    times.stretches.clear();
    times.messages.clear();
    state_->settled = false;
    times.compute = times.tensor_collectives = 0;
    times.start = state_->clock.now();
    const std::vector<Instruction>& instructions = state_->program.instructions;
    for (std::size_t i = 0; i < instructions.size(); ++i) {
        if (instructions[i].kind == InstructionKind::compute && instructions[i].action.overlaps_next) {
            state_->compute_pair(instructions[i], instructions[i + 1]);
            ++i;
        } else {
            state_->run(instructions[i]);
        }
    }
    state_->drain();
    times.end = state_->clock.now();
}

void Executor::reserve_message_times(std::size_t more_marks) {
    std::size_t messages = 0;
    for (const Instruction& instruction : state_->program.instructions)
        messages += instruction.kind != InstructionKind::compute &&
                    instruction.kind != InstructionKind::reduce_gradients;
    state_->times.messages.reserve(messages);
    state_->clock.reserve(state_->marks + 2 * messages + more_marks);
}

void Executor::record_messages(bool record) {
    state_->recording = record;
}

const StepTimes& Executor::times() {
    state_->settle();
    return state_->times;
}

}  // namespace escalier::pipeline
