#include "train/peak_flops.h"

#include <array>
#include <utility>

namespace escalier::train {

namespace {

// TFLOP/s, dense bf16. The first name that the description contains counts.
constexpr std::array<std::pair<const char*, double>, 7> known_gpus = {{{"B200", 2250},
                                                                       {"H100 PCIe", 756},
                                                                       {"H200", 989.4},
                                                                       {"H100", 989.4},
                                                                       {"A100", 312},
                                                                       {"L40S", 362},
                                                                       {"A10G", 70}}};

}  // namespace

double peak_flops(const config::JobSpec& spec, const std::string& device_description) {
    constexpr double tera = 1e12;
    if (spec.log.peak_tflops) return tera * static_cast<double>(*spec.log.peak_tflops);
    if (spec.train.dtype != "bf16") return 0;
    for (const auto& [name, tflops] : known_gpus)
        if (device_description.find(name) != std::string::npos) return tera * tflops;
    return 0;
}

}  // namespace escalier::train
