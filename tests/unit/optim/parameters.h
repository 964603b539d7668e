// Parameter lists made up for tests, with memory of their own and values that are a function of the element.
#pragma once

#include <cmath>
#include <deque>
#include <string>
#include <vector>

#include "core/op_context.h"
#include "kernels/ops.h"
#include "model/parameter.h"

namespace escalier::optim {

class MadeParameters {
 public:
    model::Parameter& add(Shape shape, int stage = 0) {
        model::Parameter& parameter = list.emplace_back();
        parameter.name = std::to_string(list.size());
        parameter.global_shape = shape;
        parameter.box = {shape.rank() == 1 ? Shape{0} : Shape{0, 0}, shape};
        parameter.global_index = static_cast<int>(list.size()) - 1;
        parameter.stage = stage;
        parameter.weight = tensor(shape);
        parameter.gradient = tensor(shape);
        return parameter;
    }
    // weight[i] and gradient[i] of entry e, as waves of different periods.
    void fill(float phase = 0.0f) {
        for (std::size_t entry = 0; entry < list.size(); ++entry)
            for (std::int64_t i = 0; i < list[entry].weight.elements(); ++i) {
                const float x = static_cast<float>(i) + 10.0f * static_cast<float>(entry) + phase;
                list[entry].weight.as<float>()[i] = std::sin(0.37f * x);
                list[entry].gradient.as<float>()[i] = std::cos(0.73f * x);
            }
    }

    model::ParameterList list;

 private:
    TensorView tensor(Shape shape) {
        memory_.emplace_back(static_cast<std::size_t>(shape.elements()));
        return TensorView(memory_.back().data(), DType::f32, shape);
    }
    std::deque<std::vector<float>> memory_;
};

inline std::vector<float> values(TensorView view) {
    return {view.as<float>(), view.as<float>() + view.elements()};
}

// Ops on two threads.
struct OpRunner {
    ComputePool pool{2};
    std::vector<char> scratch = std::vector<char>(2 << 16);
    OpContext context{pool, scratch.data(), 1 << 16};
    const kernels::Ops& ops = kernels::cpu_ops();
};

}  // namespace escalier::optim
