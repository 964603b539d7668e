// A stage of exact integer arithmetic: what it computes shows whether every action got the right tensors, and
// whether slots and buffers were left alone as long as they were needed.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <vector>

#include "model/stage.h"

namespace escalier::test {

// Forward: output = (3 input + stage + 1) mod 97; the first stage makes its input from the micro-batch.
// Backward: input gradient = (5 gradient + input + stage) mod 89; the last stage's gradient is its output
// plus the micro-batch. Weight gradient: sum of gradient * input over elements, summed over micro-batches as
// an ordered digest, so that the order of the micro-batches shows.
inline float first_input(int micro_batch, std::int64_t i) {
    return static_cast<float>((31 * micro_batch + i) % 101);
}
inline float forward_value(int stage, float input) {
    return static_cast<float>((3 * static_cast<int>(input) + stage + 1) % 97);
}
inline float last_gradient(int micro_batch, float output) {
    return static_cast<float>(static_cast<int>(output) + micro_batch);
}
inline float backward_value(int stage, float gradient, float input) {
    return static_cast<float>((5 * static_cast<int>(gradient) + static_cast<int>(input) + stage) % 89);
}
inline void add_weight_gradient(std::uint64_t& digest, const std::vector<float>& gradient,
                                const std::vector<float>& input) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < gradient.size(); ++i)
        sum += static_cast<std::uint64_t>(gradient[i]) * static_cast<std::uint64_t>(input[i]) + i % 7;
    digest = digest * 1000003 + sum;
}

// The digests of all places (stages of a copy) after one step, computed without any pipeline; each place adds
// its micro-batches in the order of its weight gradients in the schedule.
inline std::vector<std::uint64_t> expected_digests(const schedule::Schedule& schedule,
                                                   std::int64_t elements) {
    const auto stages = static_cast<std::size_t>(schedule.stages());
    const auto micro_batches = static_cast<std::size_t>(schedule.micro_batches);
    using Values = std::vector<float>;
    std::vector<std::vector<Values>> inputs(micro_batches, std::vector<Values>(stages + 1));
    std::vector<std::vector<Values>> gradients(micro_batches, std::vector<Values>(stages));
    for (std::size_t mb = 0; mb < micro_batches; ++mb) {
        std::vector<Values>& x = inputs[mb];
        for (std::int64_t i = 0; i < elements; ++i) x[0].push_back(first_input(static_cast<int>(mb), i));
        for (std::size_t s = 0; s < stages; ++s)
            for (const float value : x[s]) x[s + 1].push_back(forward_value(static_cast<int>(s), value));
        Values gradient;
        for (const float value : x.back()) gradient.push_back(last_gradient(static_cast<int>(mb), value));
        for (std::size_t s = stages; s-- > 0;) {
            gradients[mb][s] = gradient;
            for (std::size_t i = 0; i < gradient.size(); ++i)
                gradient[i] = backward_value(static_cast<int>(s), gradient[i], x[s][i]);
        }
    }
    std::vector<std::uint64_t> digests(static_cast<std::size_t>(schedule.places()), 0);
    for (const auto& actions : schedule.ranks) {
        for (const schedule::Action& action : actions) {
            if (action.kind != schedule::ActionKind::B && action.kind != schedule::ActionKind::W) continue;
            const auto mb = static_cast<std::size_t>(action.micro_batch);
            const auto s = static_cast<std::size_t>(action.stage);
            add_weight_gradient(digests[static_cast<std::size_t>(schedule.place_of(action))],
                                gradients[mb][s], inputs[mb][s]);
        }
    }
    return digests;
}

class FakeStage final : public model::Stage {
 public:
    // work: called in every segment, for instance to sleep.
    FakeStage(int stage, int stages, std::int64_t elements, const schedule::StageBuffers& buffers,
              std::function<void(schedule::ActionKind)> work = nullptr)
        : stage_(stage), stages_(stages), elements_(elements), work_(std::move(work)) {
        const auto make = [&](int count) {
            return std::vector<std::vector<float>>(static_cast<std::size_t>(count),
                                                   std::vector<float>(static_cast<std::size_t>(elements)));
        };
        forward_slots_ = make(buffers.forward_slots);
        linear_input_slots_ = make(buffers.linear_input_slots);
        output_gradient_slots_ = make(buffers.output_gradient_slots);
    }

    std::uint64_t digest = 0;
    int background_collectives = 0;  // begun and ended

    std::span<const model::Segment> segments(schedule::ActionKind) const override { return segments_; }

    // Three segments: the first two compute halves, the last is empty and counts as a collective.
    void run(int segment, const model::StageIo& io) override {
        if (work_) work_(io.action.kind);
        if (segment == 2) return;
        const std::int64_t half = elements_ / 2;
        const std::int64_t begin = segment == 0 ? 0 : half, end = segment == 0 ? half : elements_;
        using schedule::ActionKind;
        if (io.action.kind == ActionKind::F) forward(io, begin, end);
        if (io.action.kind == ActionKind::B || io.action.kind == ActionKind::I)
            input_backward(io, begin, end);
        if (segment == 1 && (io.action.kind == ActionKind::B || io.action.kind == ActionKind::W))
            add_weight_gradient(digest, slot(output_gradient_slots_, io.binding.output_gradient_slot),
                                slot(linear_input_slots_, io.binding.linear_input_slot));
    }

    bool start(int segment, const model::StageIo&) override {
        require(segment == 2 && !begun_, "a collective begins once");
        return begun_ = true;
    }
    void finish(int segment, const model::StageIo&) override {
        require(segment == 2 && begun_, "a collective that ends has begun");
        begun_ = false;
        ++background_collectives;
    }

 private:
    static std::vector<float>& slot(std::vector<std::vector<float>>& slots, int index) {
        return slots.at(static_cast<std::size_t>(index));
    }
    bool first() const { return stage_ == 0; }
    bool last() const { return stage_ == stages_ - 1; }
    static void require(bool condition, const char* what) {
        if (!condition) throw std::logic_error(what);
    }

    void forward(const model::StageIo& io, std::int64_t begin, std::int64_t end) {
        require(io.input.has_data() != first(), "input tensor");
        require(io.output.has_data() != last(), "output tensor");
        std::vector<float>& kept = slot(forward_slots_, io.binding.forward_slot);
        std::vector<float>& linear_input = slot(linear_input_slots_, io.binding.linear_input_slot);
        for (std::int64_t i = begin; i < end; ++i) {
            const auto at = static_cast<std::size_t>(i);
            const float x = first() ? first_input(io.action.micro_batch, i) : io.input.as<float>()[i];
            linear_input[at] = x;
            kept[at] = forward_value(stage_, x);
            if (!last()) io.output.as<float>()[i] = kept[at];
        }
    }
    void input_backward(const model::StageIo& io, std::int64_t begin, std::int64_t end) {
        require(io.output_gradient.has_data() != last(), "output gradient tensor");
        require(io.input_gradient.has_data() != first(), "input gradient tensor");
        const std::vector<float>& kept = slot(forward_slots_, io.binding.forward_slot);
        std::vector<float>& output_gradient = slot(output_gradient_slots_, io.binding.output_gradient_slot);
        for (std::int64_t i = begin; i < end; ++i) {
            const auto at = static_cast<std::size_t>(i);
            const float x = first() ? first_input(io.action.micro_batch, i) : io.input.as<float>()[i];
            const float g =
                last() ? last_gradient(io.action.micro_batch, kept[at]) : io.output_gradient.as<float>()[i];
            output_gradient[at] = g;
            if (!first()) io.input_gradient.as<float>()[i] = backward_value(stage_, g, x);
        }
    }

    int stage_;
    int stages_;
    std::int64_t elements_;
    bool begun_ = false;
    std::function<void(schedule::ActionKind)> work_;
    std::vector<model::Segment> segments_ = {{model::SegmentType::compute, "first half"},
                                             {model::SegmentType::compute, "second half"},
                                             {model::SegmentType::collective, "nothing"}};
    std::vector<std::vector<float>> forward_slots_, linear_input_slots_, output_gradient_slots_;
};

}  // namespace escalier::test
