#include "plan/part_times.h"

#include <cmath>

#include "plan/op_work.h"

namespace escalier::plan {

double all_reduce_seconds(double bytes, std::int64_t ranks, const Hardware::Link& link, double efficiency) {
    if (ranks <= 1) return 0;
    const double hops = 2 * static_cast<double>(ranks - 1);
    return hops / static_cast<double>(ranks) * bytes / (1e9 * efficiency * link.gb_per_s) +
           hops * 1e-6 * link.latency_us;
}

double message_seconds(double bytes, const Hardware::Link& link, double efficiency) {
    return bytes / (1e9 * efficiency * link.gb_per_s) + 1e-6 * link.latency_us;
}

const Hardware::Link& tensor_link(const Hardware& hardware, const GridSizes& grid) {
    return grid.tp <= hardware.node.gpus ? hardware.inside : hardware.between;
}

const Hardware::Link& data_link(const Hardware& hardware, const GridSizes& grid) {
    return grid.tp * grid.dp <= hardware.node.gpus ? hardware.inside : hardware.between;
}

const Hardware::Link& pipeline_link(const Hardware& hardware, const GridSizes& grid) {
    return grid.tp * grid.dp * grid.pp <= hardware.node.gpus ? hardware.inside : hardware.between;
}

std::string planned_dtype(const config::JobSpec& spec, const Hardware& hardware) {
    if (spec.train.dtype != "auto") return spec.train.dtype;
    return hardware.is_gpu() ? "bf16" : "fp32";
}

config::ModelTimes roofline_times(const config::ModelConfig& model, std::int64_t micro_batch,
                                  std::int64_t seq_len, const std::string& dtype, const GridSizes& grid,
                                  const Hardware& hardware) {
    const WorkShape shape = work_shape(model, micro_batch, seq_len, grid.tp, dtype);
    const auto time = [&](const Ops& ops) { return seconds(ops, hardware, dtype); };
    const double link = hardware.efficiency.link, memory = hardware.memory_bytes_per_s();
    const double exchange =
        all_reduce_seconds(shape.boundary_bytes(), grid.tp, tensor_link(hardware, grid), link);
    config::ModelTimes t;
    const auto set = [](config::PartTimes& part, double forward, double input, double weight,
                        double forward_exchange, double backward_exchange) {
        part = {forward + forward_exchange, input + backward_exchange + weight,
                input + backward_exchange,  weight,
                forward_exchange,           backward_exchange};
    };
    set(t.layer, time(layer_forward(shape)), time(layer_input_gradient(shape)),
        time(layer_weight_gradient(shape)), 2 * exchange, 2 * exchange);
    set(t.embedding, time(embedding_forward(shape)), time(embedding_backward(shape)), 0, exchange, 0);
    set(t.head, time(head(shape)), 0, 0, exchange, 0);
    t.attention_again = time(attention_forward(shape));
    t.layer_again = t.layer.forward;
    t.layer_again_exchange = t.layer.forward_exchange;
    t.message = message_seconds(shape.boundary_bytes(), pipeline_link(hardware, grid), link);
    const double shadow = dtype == "bf16" ? 2 : 0;
    t.optimizer = (7 * 4 + shadow) / memory;  // weight, gradient and two moments read, three written
    t.norm = 4 / memory;
    t.reduction = all_reduce_seconds(4, grid.dp, {data_link(hardware, grid).gb_per_s, 0}, link);
    t.remote_tie = all_reduce_seconds(4, 2, {pipeline_link(hardware, grid).gb_per_s, 0}, link);
    t.local_tie = 3 * 4 / memory;
    // Two small sums over all ranks, there and back along a tree.
    const double ranks = static_cast<double>(grid.tp * grid.pp * grid.dp);
    t.step = 2 * 2 * std::ceil(std::log2(ranks)) * 1e-6 * pipeline_link(hardware, grid).latency_us;
    return t;
}

config::ModelTimes roofline_times(const config::JobSpec& spec, const Hardware& hardware) {
    return roofline_times(spec.model, spec.train.micro_batch, spec.train.seq_len,
                          planned_dtype(spec, hardware),
                          {spec.parallel.tp, spec.parallel.pp, spec.parallel.dp}, hardware);
}

}  // namespace escalier::plan
