#include "train/model_source.h"

namespace escalier::train {

ModelSource open_weight_file(const std::string& path) {
    ModelSource source;
    source.path = path;
    source.about = read_weight_description(path);
    source.weights = std::make_unique<checkpoint::SafetensorsReader>(path);
    return source;
}

}  // namespace escalier::train
