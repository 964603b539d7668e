#include "checkpoint/tensor_index.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoint/gather_text.h"

namespace escalier::checkpoint {

namespace {

using nlohmann::json;

json to_json(const Shape& shape) {
    json out = json::array();
    for (int axis = 0; axis < shape.rank(); ++axis) out.push_back(shape[axis]);
    return out;
}

Shape to_shape(const json& extents) {
    ESCALIER_CHECK(extents.size() == 1 || extents.size() == 2, "parameters are vectors or matrices");
    return extents.size() == 1 ? Shape{extents[0].get<std::int64_t>()}
                               : Shape{extents[0].get<std::int64_t>(), extents[1].get<std::int64_t>()};
}

std::string describe(const model::ParameterList& parameters) {
    json list = json::array();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        const model::Parameter& parameter = parameters[i];
        if (!parameter.counted || parameter.weight.elements() == 0) continue;
        list.push_back({{"name", parameter.name},
                        {"shape", to_json(parameter.global_shape)},
                        {"transposed", parameter.transposed_in_hf},
                        {"offset", to_json(parameter.box.offset)},
                        {"extent", to_json(parameter.box.extent)},
                        {"entry", i}});
    }
    return list.dump();
}

bool overlap(const model::Box& a, const model::Box& b) {
    for (int axis = 0; axis < a.extent.rank(); ++axis)
        if (a.offset[axis] + a.extent[axis] <= b.offset[axis] ||
            b.offset[axis] + b.extent[axis] <= a.offset[axis])
            return false;
    return true;
}

void check_cover(const std::string& name, const GlobalTensor& tensor) {
    std::int64_t elements = 0;
    for (std::size_t i = 0; i < tensor.pieces.size(); ++i) {
        const model::Box& box = tensor.pieces[i].box;
        ESCALIER_CHECK(box.extent.rank() == tensor.shape.rank(), "a box of " + name + " has another rank");
        for (int axis = 0; axis < tensor.shape.rank(); ++axis)
            ESCALIER_CHECK(box.offset[axis] >= 0 && box.offset[axis] + box.extent[axis] <= tensor.shape[axis],
                           "a box lies outside " + name);
        for (std::size_t j = 0; j < i; ++j)
            ESCALIER_CHECK(!overlap(box, tensor.pieces[j].box), "boxes of " + name + " overlap");
        elements += box.extent.elements();
    }
    ESCALIER_CHECK(elements == tensor.shape.elements(), "the boxes of " + name + " do not cover it");
}

}  // namespace

TensorIndex gather_tensor_index(const model::ParameterList& parameters, comm::Communicator& model_group) {
    TensorIndex index;
    const std::vector<std::string> texts =
        all_gather_text(describe(parameters), model_group, "exchange of the tensor index");
    for (std::size_t rank = 0; rank < texts.size(); ++rank)
        for (const json& entry : json::parse(texts[rank])) {
            GlobalTensor& tensor = index[entry["name"].get<std::string>()];
            const Shape shape = to_shape(entry["shape"]);
            ESCALIER_CHECK(tensor.pieces.empty() || tensor.shape == shape, "ranks disagree on a shape");
            tensor.shape = shape;
            tensor.transposed = entry["transposed"].get<bool>();
            tensor.pieces.push_back({static_cast<int>(rank),
                                     entry["entry"].get<int>(),
                                     {to_shape(entry["offset"]), to_shape(entry["extent"])}});
        }
    for (const auto& [name, tensor] : index) check_cover(name, tensor);
    return index;
}

}  // namespace escalier::checkpoint
