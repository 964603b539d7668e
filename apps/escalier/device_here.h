// The device that run.device: auto would take on this machine.
#pragma once

#include <string>

namespace escalier::apps {

std::string device_here();  // "cpu" or "cuda"

}  // namespace escalier::apps
