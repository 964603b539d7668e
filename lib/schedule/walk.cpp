#include "schedule/walk.h"

#include <algorithm>
#include <functional>

#include "core/check.h"

namespace escalier::schedule {
namespace {

std::size_t at(int i) {
    return static_cast<std::size_t>(i);
}

// A rank and the index of one of its computes; -1: none yet.
struct ComputeIndex {
    int rank = -1;
    int index = -1;
};

enum class MessageReason : std::uint8_t { producer, posted, previous };

struct Message {
    double ready = 0;   // its producer is done
    double posted = 0;  // its receive is posted
    double end = 0;     // it has moved
    ComputeIndex producer, poster;
    int place = -1;  // of the receiver
    int micro_batch = -1;
    MessageReason reason = MessageReason::producer;
};

// One direction of one edge of one copy. Its messages lie in `messages_` from `first` on, in queue order.
struct Channel {
    int sent = 0, posted = 0, moved = 0;
    double end = 0;
    int waiting_rank[2] = {-1, -1};  // one at either end at most
};

// Messages under way in the buffers of a chunk; -1: none.
struct ChunkBuffers {
    std::vector<int> inputs, outputs, output_gradients, input_gradients;
};

struct Rank {
    const Program* program = nullptr;
    std::size_t next = 0;  // instruction
    int computes = 0;
    double clock = 0;
    std::vector<ChunkBuffers> chunks;
};

// Why a compute began when it did: -1 its rank was busy until then, else a message.
struct ComputeReason {
    int message = -1;
    bool sending = false;  // its output buffer was taken by that message
    Ring ring = Ring::outputs;
    int place = -1;
};

// What a compute waits for.
struct Start {
    double time = 0;
    ComputeReason reason;
};

class Walker {
 public:
    using DurationOf = std::function<double(int rank, int index, const Action& action)>;

    Walker(const Schedule& schedule, const std::vector<Program>& programs, DurationOf duration,
           double transfer, double pair_factor, WalkOptions options)
        : schedule_(schedule),
          duration_(std::move(duration)),
          transfer_(transfer),
          pair_factor_(pair_factor),
          options_(options),
          channels_(2 * at(schedule.places())),
          messages_(channels_.size() * at(schedule.micro_batches)),
          ranks_(programs.size()) {
        result_.computes.resize(programs.size());
        if (options.find_rings) reasons_.resize(programs.size());
        for (std::size_t r = 0; r < programs.size(); ++r) {
            ranks_[r].program = &programs[r];
            for (const StageBuffers& buffers : programs[r].chunks)
                ranks_[r].chunks.push_back({empty(buffers.inputs), empty(buffers.outputs),
                                            empty(buffers.output_gradients), empty(buffers.input_gradients)});
            result_.computes[r].reserve(schedule.ranks[r].size());
        }
    }

    Walk run() {
        for (int r = static_cast<int>(ranks_.size()); r-- > 0;) runnable_.push_back(r);
        while (!runnable_.empty()) {
            const int rank = runnable_.back();
            runnable_.pop_back();
            run(rank);
        }
        result_.complete = true;
        for (const Rank& rank : ranks_) {
            result_.complete = result_.complete && rank.next == rank.program->instructions.size();
            result_.end = std::max(result_.end, rank.clock);
        }
        for (const Channel& channel : channels_) {
            result_.complete = result_.complete && channel.moved == channel.sent;
            result_.end = std::max(result_.end, channel.end);
            result_.messages += channel.sent;
        }
        if (options_.find_rings && result_.complete) trace_longest_path();
        return std::move(result_);
    }

 private:
    static std::vector<int> empty(int size) { return std::vector<int>(at(size), -1); }
    int message_of(int channel, int index) const { return channel * schedule_.micro_batches + index; }
    int channel_of(const Action& action, int stage_offset, bool gradient) const {
        return 2 * (schedule_.place_of(action) + stage_offset) + gradient;
    }

    // As far as the rank gets.
    void run(int r) {
        Rank& rank = ranks_[at(r)];
        const std::vector<Instruction>& instructions = rank.program->instructions;
        while (rank.next < instructions.size()) {
            const Instruction& instruction = instructions[rank.next];
            switch (instruction.kind) {
                case InstructionKind::receive_activation:
                case InstructionKind::receive_gradient:
                    post(r, instruction);
                    break;
                case InstructionKind::send_activation:
                case InstructionKind::send_gradient:
                    send(r, instruction);
                    break;
                case InstructionKind::compute: {
                    const bool pair = instruction.action.overlaps_next;
                    if (!compute(r, instruction, pair ? &instructions[rank.next + 1] : nullptr)) return;
                    rank.next += pair;
                    break;
                }
                case InstructionKind::reduce_gradients:
                    break;
            }
            ++rank.next;
        }
    }

    void post(int r, const Instruction& instruction) {
        Rank& rank = ranks_[at(r)];
        const bool gradient = instruction.kind == InstructionKind::receive_gradient;
        const int c = channel_of(instruction.action, gradient ? 1 : -1, gradient);
        Channel& channel = channels_[at(c)];
        const int m = message_of(c, channel.posted++);
        Message& message = messages_[at(m)];
        message.posted = options_.unlimited ? 0 : rank.clock;
        message.poster = {r, rank.computes - 1};
        message.place = schedule_.place_of(instruction.action);
        expect(message, instruction.action);
        ChunkBuffers& buffers = rank.chunks[at(instruction.chunk)];
        (gradient ? buffers.output_gradients : buffers.inputs)[at(instruction.buffer)] = m;
        move(c);
    }

    void send(int r, const Instruction& instruction) {
        Rank& rank = ranks_[at(r)];
        const bool gradient = instruction.kind == InstructionKind::send_gradient;
        const int c = channel_of(instruction.action, 0, gradient);
        Channel& channel = channels_[at(c)];
        const int m = message_of(c, channel.sent++);
        Message& message = messages_[at(m)];
        message.ready = rank.clock;
        message.producer = {r, rank.computes - 1};
        expect(message, instruction.action);
        ChunkBuffers& buffers = rank.chunks[at(instruction.chunk)];
        (gradient ? buffers.input_gradients : buffers.outputs)[at(instruction.buffer)] = m;
        move(c);
    }

    // Both ends of a channel queue the same micro-batches in the same order.
    static void expect(Message& message, const Action& action) {
        ESCALIER_CHECK(message.micro_batch < 0 || message.micro_batch == action.micro_batch,
                       "the ends of a channel disagree about " + cell(action));
        message.micro_batch = action.micro_batch;
    }

    void move(int c) {
        Channel& channel = channels_[at(c)];
        const int both = options_.unlimited ? channel.sent : std::min(channel.sent, channel.posted);
        const bool any = channel.moved < both;
        while (channel.moved < both) {
            Message& message = messages_[at(message_of(c, channel.moved++))];
            double start = message.ready;
            if (channel.end > start) {
                start = channel.end;
                message.reason = MessageReason::previous;
            }
            if (message.posted > start) {
                start = message.posted;
                message.reason = MessageReason::posted;
            }
            message.end = channel.end = start + transfer_;
        }
        if (!any) return;
        for (int& waiting : channel.waiting_rank) {
            if (waiting >= 0) runnable_.push_back(waiting);
            waiting = -1;
        }
    }

    bool moved(int message) const {
        return message % schedule_.micro_batches < channels_[at(message / schedule_.micro_batches)].moved;
    }

    // Raises `start` to the end of the message in a buffer; false if it has not moved yet.
    bool await(int r, int message, Start& start, ComputeReason reason) {
        if (message < 0) return true;
        if (!moved(message)) {
            auto& waiting = channels_[at(message / schedule_.micro_batches)].waiting_rank;
            waiting[waiting[0] >= 0 && waiting[0] != r] = r;
            return false;
        }
        const double end = messages_[at(message)].end;
        if (end > start.time) {
            start.time = end;
            reason.message = message;
            start.reason = reason;
        }
        return true;
    }

    bool await_all(int r, const Instruction& instruction, Start& start) {
        const ChunkBuffers& buffers = ranks_[at(r)].chunks[at(instruction.chunk)];
        const Binding& binding = instruction.binding;
        const auto content = [](const std::vector<int>& ring, int index) {
            return index < 0 || at(index) >= ring.size() ? -1 : ring[at(index)];
        };
        if (!await(r, content(buffers.inputs, binding.input), start, {})) return false;
        if (!await(r, content(buffers.output_gradients, binding.output_gradient), start, {})) return false;
        if (options_.unlimited) return true;
        const int place = schedule_.place_of(instruction.action);
        if (!binding.output_is_next_input &&
            !await(r, content(buffers.outputs, binding.output), start, {-1, true, Ring::outputs, place}))
            return false;
        return binding.input_gradient_is_previous ||
               await(r, content(buffers.input_gradients, binding.input_gradient), start,
                     {-1, true, Ring::input_gradients, place});
    }

    bool compute(int r, const Instruction& first, const Instruction* second) {
        Rank& rank = ranks_[at(r)];
        Start start{rank.clock, {}};
        if (!await_all(r, first, start) || (second != nullptr && !await_all(r, *second, start))) return false;
        double duration = duration_(r, rank.computes, first.action);
        if (second != nullptr)
            duration = pair_factor_ * (duration + duration_(r, rank.computes + 1, second->action));
        rank.clock = start.time + duration;
        for (int i = 0; i < (second != nullptr ? 2 : 1); ++i) {
            result_.computes[at(r)].push_back({start.time, rank.clock});
            if (options_.find_rings) reasons_[at(r)].push_back(start.reason);
            ++rank.computes;
        }
        return true;
    }

    void trace_longest_path() {
        ComputeIndex where;
        double latest = -1;
        for (std::size_t r = 0; r < ranks_.size(); ++r) {
            if (ranks_[r].computes == 0 || ranks_[r].clock <= latest) continue;
            latest = ranks_[r].clock;
            where = {static_cast<int>(r), ranks_[r].computes - 1};
        }
        while (where.index >= 0) {
            const ComputeReason reason = reasons_[at(where.rank)][at(where.index)];
            if (reason.message < 0) {
                --where.index;
                continue;
            }
            if (reason.sending) add_ring(reason.place, reason.ring);
            int m = reason.message;
            while (messages_[at(m)].reason == MessageReason::previous) --m;
            const Message& message = messages_[at(m)];
            const bool posted = message.reason == MessageReason::posted;
            const bool gradient = m / schedule_.micro_batches % 2 == 1;
            if (posted) add_ring(message.place, gradient ? Ring::output_gradients : Ring::inputs);
            where = posted ? message.poster : message.producer;
        }
    }

    void add_ring(int place, Ring ring) {
        const std::pair<int, Ring> entry{place, ring};
        auto& rings = result_.critical_rings;
        if (std::find(rings.begin(), rings.end(), entry) == rings.end()) rings.push_back(entry);
    }

    const Schedule& schedule_;
    DurationOf duration_;
    double transfer_, pair_factor_;
    WalkOptions options_;
    std::vector<Channel> channels_;  // 2 * place of the producer + gradient
    std::vector<Message> messages_;  // by channel, in queue order
    std::vector<Rank> ranks_;
    std::vector<std::vector<ComputeReason>> reasons_;
    std::vector<int> runnable_;
    Walk result_;
};

}  // namespace

Walk walk(const Schedule& schedule, const std::vector<Program>& programs, const Durations& durations,
          WalkOptions options) {
    const auto duration = [&](int, int, const Action& action) {
        return durations.of(action.kind, action.stage);
    };
    return Walker(schedule, programs, duration, durations.transfer, durations.pair_factor, options).run();
}

Walk walk(const Schedule& schedule, const std::vector<Program>& programs,
          const std::vector<std::vector<double>>& durations, double transfer, WalkOptions options) {
    const auto duration = [&](int rank, int index, const Action&) { return durations[at(rank)][at(index)]; };
    constexpr double pair_factor = 1;  // what a pair saved is in its recorded durations
    return Walker(schedule, programs, duration, transfer, pair_factor, options).run();
}

}  // namespace escalier::schedule
