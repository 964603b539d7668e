// A tensor that the host fills or reads and that ops work on: twice on a device with memory of its own, the
// same memory on the CPU.
#pragma once

#include "device/arena.h"
#include "device/device.h"

namespace escalier::device {

struct Mirror {
    TensorView host;
    TensorView device;

    // Takes both from the arenas `host` and `data`.
    static Mirror take(Arenas& arenas, const Device& device, DType dtype, Shape shape);

    // Queued; nothing to do on the CPU.
    void upload(Device& to) const;
    void download(Device& from) const;
};

}  // namespace escalier::device
