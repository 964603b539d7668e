#include "train/peak_flops.h"

#include <cctype>
#include <cstddef>

namespace escalier::train {

namespace {

struct Gpu {
    const char* name;
    double tflops;  // dense bf16, of the data sheet
};

// The first whose name the description has as whole words counts.
constexpr Gpu known_gpus[] = {{"B200", 2250},     {"B300", 2250},    {"GB200", 2500},   {"GB300", 2500},
                              {"H100 PCIe", 756}, {"H100 NVL", 835}, {"H200 NVL", 835}, {"H200", 989.4},
                              {"H100", 989.4},    {"A100", 312},     {"L40S", 362},     {"A10G", 70},
                              {"A6000", 154.85}};

bool is_part_of_a_word(const std::string& text, std::size_t at) {
    return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at]));
}

// "A100" is in "NVIDIA A100-SXM4-80GB", but not in "NVIDIA RTX A1000".
bool has_word(const std::string& text, const std::string& word) {
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
        if (!(at > 0 && is_part_of_a_word(text, at - 1)) && !is_part_of_a_word(text, at + word.size()))
            return true;
    return false;
}

}  // namespace

double peak_flops(const config::JobSpec& spec, const std::string& device_description) {
    constexpr double tera = 1e12;
    if (spec.log.peak_tflops) return tera * static_cast<double>(*spec.log.peak_tflops);
    if (spec.train.dtype != "bf16") return 0;
    for (const Gpu& gpu : known_gpus)
        if (has_word(device_description, gpu.name)) return tera * gpu.tflops;
    return 0;
}

}  // namespace escalier::train
