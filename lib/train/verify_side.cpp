#include "train/verify_side.h"

#include <algorithm>
#include <string>
#include <utility>

#include "optim/lr_schedule.h"
#include "train/job_programs.h"

namespace escalier::train {

namespace {

bool is_token_table(const std::string& name) {
    return name.ends_with("wte.weight") || name.ends_with("embed_tokens.weight");
}

// Entries that share a name tell their parts.
std::string part_name(const model::ParameterList& parameters, std::size_t at) {
    const std::string& name = parameters[at].name;
    if (name.find("attn.c_attn.") == std::string::npos) return name;
    std::size_t part = 0;
    while (part < at && parameters[at - part - 1].name == name) ++part;
    static constexpr const char* parts[] = {" (query)", " (key)", " (value)"};
    return name + parts[std::min<std::size_t>(part, 2)];
}

Rect rect_of(const model::Box& box) {
    const bool matrix = box.extent.rank() == 2;
    return {box.offset[0], matrix ? box.offset[1] : 0, box.extent[0], matrix ? box.extent[1] : 1};
}

std::string stream_name(std::int64_t point) {
    if (point == 0) return "residual stream behind the embedding";
    const std::string layer = std::to_string((point - 1) / 2);
    return point % 2 ? "residual stream behind the attention of layer " + layer
                     : "residual stream behind layer " + layer;
}

}  // namespace

VerifySide::VerifySide(const config::JobSpec& spec, comm::MpiEnv& env, int first_rank,
                       AssemblyOptions options, bool record) {
    comm::Communicator& world = env.world();
    const int ranks = grid_of(spec).ranks();
    const bool mine = world.rank() >= first_rank && world.rank() < first_rank + ranks;
    Backend backend = make_backend(spec.run, env);
    spec_ = settled(spec, backend, world);
    job_ = world.split(mine ? 0 : -1, world.rank());
    if (record && mine) {
        recorder_ = std::make_unique<ResidualRecorder>();
        options.hooks.stages.push_back(recorder_->hook());
    }
    env.agree([&] {
        if (!mine) return;
        assembly_ = std::make_unique<Assembly>(spec_, env, *job_, options, std::move(backend));
        if (recorder_) recorder_->set_device(*assembly_->backend().device);
    });
}

StepResult VerifySide::step(const data::SampleReader& reader, std::int64_t consumed, std::int64_t number) {
    return member() ? assembly_->step().run(reader, consumed, number) : StepResult{};
}

double VerifySide::learning_rate(std::int64_t number) const {
    return optim::learning_rate(spec_.lr, spec_.train.steps, number);
}

parallel::GridPlace VerifySide::place() const {
    return member() ? assembly_->groups().place : parallel::GridPlace{};
}

SideTensors::Pieces VerifySide::weights() {
    return parameters(true);
}

SideTensors::Pieces VerifySide::after_step() {
    SideTensors::Pieces pieces = parameters(false);
    add_residual_stream(pieces);
    return pieces;
}

SideTensors::Pieces VerifySide::parameters(bool weights_only) {
    SideTensors::Pieces pieces;
    if (!member()) return pieces;
    device::Device* device = assembly_->backend().device.get();
    const model::ParameterList& all = assembly_->model().parameters();
    const std::vector<kernels::OptimizerTensor>& updated = assembly_->step().optimizer().tensors();
    for (std::size_t i = 0; i < all.size(); ++i) {
        const model::Parameter& p = all[i];
        if (p.weight.elements() == 0) continue;
        // A head that shares its table's weight has a part of the gradient only, which the table's has too.
        if (std::any_of(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(i),
                        [&](const auto& other) { return other.weight.data() == p.weight.data(); }))
            continue;
        const bool table = is_token_table(p.name);
        const std::int64_t order = table ? 0 : p.global_index;
        const bool stage_copy = table && p.global_index != 0;
        const auto add = [&](Quantity quantity, TensorView view) {
            if (view.elements() > 0)
                pieces.push_back(
                    {quantity, order, part_name(all, i), rect_of(p.box), view, device, stage_copy});
        };
        add(Quantity::weight, p.weight);
        if (weights_only) continue;
        add(Quantity::gradient, p.gradient);
        const auto tensor = std::find_if(updated.begin(), updated.end(),
                                         [&](const auto& t) { return t.weight.data() == p.weight.data(); });
        if (tensor == updated.end()) continue;
        add(Quantity::first_moment, tensor->first_moment);
        add(Quantity::second_moment, tensor->second_moment);
    }
    return pieces;
}

// Samples of the global batch are the rows.
void VerifySide::add_residual_stream(SideTensors::Pieces& pieces) {
    if (!recorder_) return;
    const std::int64_t batch = spec_.train.micro_batch, last = 2 * spec_.model.num_layers;
    const std::int64_t width = spec_.train.seq_len * spec_.model.hidden_size;
    const auto& points = recorder_->values();
    for (const auto& [key, values] : points) {
        // Between stages of one rank nothing is sent.
        if (key.received && points.contains({key.point, key.gradient, key.micro_batch, false})) continue;
        const std::int64_t sample = (key.micro_batch * spec_.parallel.dp + place().dp_rank) * batch;
        const TensorView view(const_cast<float*>(values.data()), DType::f32, {batch, width});
        pieces.push_back({key.gradient ? Quantity::activation_gradient : Quantity::activation,
                          key.gradient ? last - key.point : key.point,
                          (key.gradient ? "gradient of the " : "") + stream_name(key.point),
                          {sample, 0, batch, width},
                          view,
                          nullptr,
                          key.received});
    }
}

}  // namespace escalier::train
