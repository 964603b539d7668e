// A device that is not there: with memory of its own, of which nothing can be taken. What is built on it can
// be measured and never runs. For plans of runs on other machines.
#pragma once

#include <memory>

#include "device/device.h"

namespace escalier::device {

// description: as Device::description(). All that would run throws InternalError.
std::unique_ptr<Device> make_planned_device(std::string description);

}  // namespace escalier::device
