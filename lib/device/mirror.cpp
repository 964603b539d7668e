#include "device/mirror.h"

namespace escalier::device {

Mirror Mirror::take(Arenas& arenas, const Device& device, DType dtype, Shape shape) {
    const TensorView host = arenas.host.take(dtype, shape);
    return {host, device.is_host() ? host : arenas.data.take(dtype, shape)};
}

void Mirror::upload(Device& to) const {
    if (host.data() != device.data()) to.upload(device.data(), host.data(), host.bytes());
}

void Mirror::download(Device& from) const {
    if (host.data() != device.data()) from.download(host.data(), device.data(), host.bytes());
}

}  // namespace escalier::device
