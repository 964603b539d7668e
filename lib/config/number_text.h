// Numbers to text and back: shortest decimals that read back to the same bits.
#pragma once

#include <cmath>
#include <string>

namespace escalier::config {

// "0.1", "10000.0", "1.0e-08": also a float to YAML 1.1 readers, which want a point.
std::string real_text(double value);

}  // namespace escalier::config
