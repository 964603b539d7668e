#include "train/residual_recorder.h"

#include "train/read_rows.h"

namespace escalier::train {

class ResidualRecorder::RecordedStage final : public model::Stage {
 public:
    RecordedStage(const model::StageModel& model, model::Stage& inner, ResidualRecorder& recorder)
        : model_(model), inner_(inner), recorder_(recorder) {}

    std::span<const model::Segment> segments(schedule::ActionKind kind) const override {
        return inner_.segments(kind);
    }
    void run(int segment, const model::StageIo& io) override {
        if (segment == 0)
            if (const auto point = model_.residual_received(io))
                recorder_.keep(*point, io.action.micro_batch, true);
        inner_.run(segment, io);
        if (const auto point = model_.residual_after(segment, io))
            recorder_.keep(*point, io.action.micro_batch, false);
    }
    bool start(int segment, const model::StageIo& io) override { return inner_.start(segment, io); }
    void finish(int segment, const model::StageIo& io) override { inner_.finish(segment, io); }

 private:
    const model::StageModel& model_;
    model::Stage& inner_;
    ResidualRecorder& recorder_;
};

StageHook ResidualRecorder::hook() {
    return [this](const model::StageModel& model, model::Stage& inner) {
        return std::make_unique<RecordedStage>(model, inner, *this);
    };
}

void ResidualRecorder::keep(const model::ResidualPoint& point, int micro_batch, bool received) {
    std::vector<float>& kept = values_[{point.point, point.gradient, micro_batch, received}];
    kept.resize(static_cast<std::size_t>(point.value.elements()));
    read_rows(device_, point.value, 0, point.value.extent(0), kept.data());
}

}  // namespace escalier::train
