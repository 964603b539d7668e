#include "device_here.h"

#include "train/cuda_plugin.h"

namespace escalier::apps {

std::string device_here() {
    if (!train::worth_looking_for_cuda()) return "cpu";
    return train::cuda_state() == train::cuda_usable ? "cuda" : "cpu";
}

}  // namespace escalier::apps
