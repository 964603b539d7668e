// The models of configs/presets, built into the library so that a binary needs no path to find them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace escalier::config {

// The YAML text of configs/presets/NAME.yaml; empty if there is no such preset.
std::string_view preset_text(std::string_view name);
std::vector<std::string> preset_names();

}  // namespace escalier::config
